// Asks again and again what the view needs, and keeps the answers.
import { question, session } from "./server.js";
import { route } from "./route.js";

const LEAST = 2; // seconds from one reading to the next; the server may want more
const AFTER_ERROR = 5;
export const live = { about: null, overview: null, answers: {}, view: "", error: "", reading: "" };

let views = {},
  shown = () => {},
  round = 0,
  timer = 0;

async function answer([name, query, optional]) {
  try {
    const content = await question(name, query);
    return [name, content.reading && optional ? { failed: content.reading } : content];
  } catch (error) {
    if (!optional) throw error;
    return [name, { failed: error.message }];
  }
}

export async function read() {
  const mine = ++round,
    { view, fields } = route(),
    opened = live.view !== view;
  let pace = LEAST;
  clearTimeout(timer);
  try {
    if (!live.about) live.about = await session();
    const overview = await question("overview");
    const asks = (views[view] || views.overview).asks(fields, overview, opened);
    const entries = await Promise.all(asks.map(answer));
    if (mine !== round) return; // the reader has gone to another view
    const missing = entries.find(([, content]) => content.reading);
    live.overview = overview;
    live.reading = missing ? missing[1].reading : "";
    if (!missing) Object.assign(live, { answers: Object.fromEntries(entries), view });
    live.error = "";
    pace = Math.max(pace, ...entries.map(([, content]) => content.again || 0));
  } catch (error) {
    if (mine !== round) return;
    live.about = null;
    live.error = error.message;
    pace = AFTER_ERROR;
  }
  shown();
  if (!document.hidden) timer = setTimeout(read, pace * 1000);
}

export function failed(error) {
  live.error = error.message;
  shown();
}

export function begin(all, show) {
  views = all;
  shown = show;
  addEventListener("hashchange", () => {
    show();
    read();
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) read();
  });
  read();
}
