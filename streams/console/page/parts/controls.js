// Fields and buttons.
import { Component, html } from "../core/html.js";
import { link, refine } from "../core/route.js";
import { settings } from "../core/settings.js";
import { count, moment, span } from "../core/text.js";

export const Button = ({ label, act, kind, disabled, children }) =>
  html`<button
    type="button"
    class=${`button ${kind || ""}`}
    aria-label=${label}
    data-id=${label}
    disabled=${disabled}
    onClick=${act}
  >
    ${children}
  </button>`;

export const To = ({ view, fields, label, children }) =>
  html`<a href=${link(view, fields)} aria-label=${label}>${children}</a>`;

export const Badge = ({ kind, children }) => html`<span class=${`badge ${kind}`}>${children}</span>`;

export const Time = ({ at }) => {
  const text = moment(at, settings.zone === "UTC");
  return text && html`<time>${text}</time>`;
};

export const Choice = ({ label, field, value, options }) =>
  html`<label class="field"
    ><span>${label}</span>
    <select
      id=${`field-${field}`}
      value=${value || ""}
      onChange=${(event) => refine({ [field]: event.target.value })}
    >
      ${options.map(([name, text]) => html`<option value=${name} selected=${name === (value || "")}>${text}</option>`)}
    </select>
  </label>`;

const TYPING = 200; // milliseconds without a key, before the search begins
export class Search extends Component {
  render({ label, field, value, hint }) {
    const type = (event) => {
      const text = event.target.value;
      clearTimeout(this.typing);
      this.typing = setTimeout(() => refine({ [field]: text }), TYPING);
    };
    return html`<label class="field"
      ><span>${label}</span>
      <input id=${`field-${field}`} type="search" placeholder=${hint} value=${value || ""} onInput=${type}
    /></label>`;
  }
}

export const Pages = ({ content }) => {
  const { first, found, page } = content,
    last = Math.min(first + page, found);
  const turn = (step) => () => refine({ first: Math.max(0, first + step) || "" });
  const end = () => refine({ first: Math.floor((found - 1) / page) * page || "" });
  return html`<div class="pages">
    <${Button} label="first page" act=${turn(-first)} disabled=${!first}>First<//>
    <${Button} label="previous page" act=${turn(-page)} disabled=${!first}>Previous<//>
    <span id="pages">${found ? `${count(first + 1)} to ${count(last)} of ${count(found)}` : "none"}</span>
    <${Button} label="next page" act=${turn(page)} disabled=${last >= found}>Next<//>
    <${Button} label="last page" act=${end} disabled=${last >= found}>Last<//>
  </div>`;
};

const OLD = 30; // seconds: a reading that takes long is seldom repeated
// `again` makes the server read again.
export const ReadAt = ({ age, again }) =>
  html`<p class="soft" id="age">
    Read from the store ${age < 1 ? "now" : `${span(age)} ago`}.${
      again && age > OLD && html` <${Button} kind="small" label="read again" act=${again}>Read again<//>`
    }
  </p>`;

const COPIED = 1500; // milliseconds for which a button says so
export class Copy extends Component {
  render({ text, label }, { copied }) {
    const act = async () => {
      await navigator.clipboard.writeText(text);
      this.setState({ copied: true });
      setTimeout(() => this.setState({ copied: false }), COPIED);
    };
    return html`<${Button} kind="small" label=${`copy ${label}`} act=${act}>${copied ? "Copied" : "Copy"}<//>`;
  }
}

export const Tile = ({ name, children }) =>
  html`<div class="tile">
    <dt>${name}</dt>
    <dd>${children}</dd>
  </div>`;

export const Empty = ({ title, children }) =>
  html`<div class="empty">
    <p class="title">${title}</p>
    ${children && html`<p>${children}</p>`}
  </div>`;
