// The console of the demo: that of each run, and above its overview the numbers of the demo.
import { html } from "../core/html.js";
import { intended } from "../core/model.js";
import { VIEWS } from "../views/all.js";
import { Numbers } from "./numbers.js";

intended.letters = "flights without a departure delay end there by design";
const { overview } = VIEWS;
VIEWS.overview = {
  ...overview,
  asks: (...known) => [...overview.asks(...known), ["demo", {}, true]],
  content: (fields, answers, now) =>
    html`<${Numbers} numbers=${answers.demo} workers=${now.workers} />${overview.content(fields, answers, now)}`,
};
await import("../console.js");
