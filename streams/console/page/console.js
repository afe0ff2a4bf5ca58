// The page: a frame around one view.
import { html, render } from "./core/html.js";
import { begin, live } from "./core/live.js";
import { route } from "./core/route.js";
import "./core/settings.js";
import { Frame } from "./parts/frame.js";
import { VIEWS } from "./views/all.js";

const root = document.getElementById("root");
let last = "";

function show() {
  const { view, fields } = route(),
    chosen = VIEWS[view] || VIEWS.overview;
  const heading = chosen.heading ? chosen.heading(fields) : chosen.title;
  const content =
    live.view === view || (live.view && chosen === VIEWS[live.view])
      ? chosen.content(fields, live.answers, live.overview)
      : null;
  render(html`<${Frame} view=${view} title=${heading}>${content}<//>`, root);
  document.title = `${live.about ? `${live.about.app} - ` : ""}${heading} - Sluicegate`;
  if (last && last !== view) {
    document.getElementById("view").focus({ preventScroll: true });
    scrollTo(0, 0);
  }
  last = view;
}

addEventListener("settings", show);
document.addEventListener("keydown", (event) => {
  if (
    event.key !== "/" ||
    event.ctrlKey ||
    event.metaKey ||
    event.altKey ||
    /INPUT|SELECT|TEXTAREA/.test(event.target.tagName)
  )
    return;
  const field = document.querySelector("main input[type=search]");
  if (field) {
    event.preventDefault();
    field.focus();
  }
});
begin(VIEWS, show);
