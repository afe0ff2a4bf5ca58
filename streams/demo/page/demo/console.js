// The console of the demo: that of each run, and above its overview the numbers of the demo.
import { html } from "../core/html.js";
import { VIEWS } from "../views/all.js";
import { Numbers } from "./numbers.js";

const { overview } = VIEWS;
VIEWS.overview = {
  ...overview,
  asks: (...known) => [...overview.asks(...known), ["demo", {}, true]],
  content: (fields, answers, now) =>
    html`<${Numbers} numbers=${answers.demo} workers=${now.workers} />${overview.content(fields, answers, now)}`,
};
await import("../console.js");
