// Elements. Each text and attribute of an element passes `safe` here, so text of the server is never markup and
// never hides or reorders what stands beside it.
import htm from "../vendor/htm.js";
import { Component, h as element, render } from "../vendor/preact.js";
import { printable } from "./text.js";

const RAW = new Set(["value", "href", "class", "id", "key", "d", "points"]);
const safe = (child) =>
  Array.isArray(child) ? child.map(safe) : typeof child === "string" ? printable(child) : child;

function checked(type, props) {
  if (!props || typeof type !== "string") return props;
  const made = {};
  for (const [name, value] of Object.entries(props)) made[name] = RAW.has(name) ? value : safe(value);
  return made;
}

export const html = htm.bind((type, props, ...children) =>
  element(type, checked(type, props), ...children.map(safe)),
);
export { Component, render };
