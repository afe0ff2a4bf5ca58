// Texts, numbers and times as the page shows them.

// Control characters but tab and line feed, and characters that hide or reorder other text. As in streams/wording.py.
const UNPRINTABLE = new RegExp(
  "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\xad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5" +
    "\\u180b-\\u180f\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0" +
    "\\ufff0-\\ufffb\\ud800-\\udfff\\u{1bca0}-\\u{1bca3}\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}]",
  "gu",
);
const units = (text) =>
  text
    .split("")
    .map((unit) => "\\u" + unit.charCodeAt(0).toString(16).padStart(4, "0"))
    .join("");
export const printable = (text) => String(text).replace(UNPRINTABLE, units);

const missing = (value) => value === null || value === undefined;

export const count = (value) => (missing(value) || value < 0 ? null : value.toLocaleString("en"));
export const counted = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

// A rate or a size: 0.4, 12, 1.2 k.
export function short(value) {
  if (missing(value)) return null;
  if (value >= 1e6) return `${Number((value / 1e6).toPrecision(3))} M`;
  if (value >= 1e4) return `${Number((value / 1e3).toPrecision(3))} k`;
  return value >= 100 || Number.isInteger(value)
    ? Math.round(value).toLocaleString("en")
    : String(Number(value.toPrecision(2)));
}

export function span(seconds) {
  if (missing(seconds)) return null;
  const all = Math.round(Math.abs(seconds)),
    past = seconds < 0 && all ? " overdue" : "";
  if (all < 120) return `${all} s${past}`;
  if (all < 7200) return `${Math.floor(all / 60)} m ${all % 60} s${past}`;
  if (all < 172800) return `${Math.floor(all / 3600)} h ${Math.floor((all % 3600) / 60)} m${past}`;
  return `${Math.floor(all / 86400)} d ${Math.floor((all % 86400) / 3600)} h${past}`;
}

export const milliseconds = (seconds) =>
  missing(seconds) ? null : seconds >= 1 ? `${short(seconds)} s` : `${short(seconds * 1000)} ms`;

const two = (number) => String(number).padStart(2, "0");

// `at`: seconds since 1970, or a text in ISO 8601. `utc`: else the time of this machine.
export function moment(at, utc) {
  if (missing(at)) return null;
  const date = new Date(typeof at === "number" ? at * 1000 : at);
  if (Number.isNaN(date.getTime())) return String(at);
  const part = (name) => date[`get${utc ? "UTC" : ""}${name}`]();
  return (
    `${part("FullYear")}-${two(part("Month") + 1)}-${two(part("Date"))} ` +
    `${two(part("Hours"))}:${two(part("Minutes"))}:${two(part("Seconds"))}${utc ? " UTC" : ""}`
  );
}
