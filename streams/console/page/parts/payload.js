// A payload, pretty and highlighted where it is JSON. Each token is a text node.
import { html } from "../core/html.js";
import { Copy } from "./controls.js";

const LONGEST = 200_000; // characters that are highlighted; a longer text is shown as it is
const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(true|false|null)\b|(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)/g;

function pretty(text) {
  try {
    const value = JSON.parse(text);
    return typeof value === "object" && value !== null ? JSON.stringify(value, null, 2) : null;
  } catch {
    return null;
  }
}

// JSON.parse rounds numbers of more than 15 digits: then the text stays as it came.
const exact = (text) => !/\d{16}/.test(text);

function tokens(text) {
  const parts = [];
  let at = 0;
  for (const match of text.matchAll(TOKEN)) {
    if (match.index > at) parts.push(text.slice(at, match.index));
    const kind =
      match[2] !== undefined
        ? "name"
        : match[1] !== undefined
          ? "string"
          : match[3] !== undefined
            ? "word"
            : "digits";
    parts.push(html`<span class=${`token-${kind}`}>${match[1] || match[0]}</span>`);
    if (match[2] !== undefined) parts.push(match[2]);
    at = match.index + match[0].length;
  }
  parts.push(text.slice(at));
  return parts;
}

export function Payload({ title, text }) {
  const made = text.length <= LONGEST && exact(text) ? pretty(text) : null;
  return html`<div class="payload">
    <div class="head">
      <h3>${title}</h3>
      <${Copy} text=${text} label=${title.toLowerCase()} />
    </div>
    <pre tabindex="0" aria-label=${title}>
${text === "" ? html`<span class="soft">empty</span>` : made === null ? text : tokens(made)}</pre>
  </div>`;
}
