// The frame around each view: navigation, facts of the run, preferences.
import { html } from "../core/html.js";
import { live } from "../core/live.js";
import { dead, intended } from "../core/model.js";
import { link } from "../core/route.js";
import { prefer, settings, THEMES, ZONES } from "../core/settings.js";
import { Dialogs } from "./dialogs.js";
import { Badge } from "./controls.js";

const PLACES = [
  ["overview", "Overview"],
  ["groups", "Groups"],
  ["dead", "Dead letters"],
  ["timeouts", "Timeouts"],
  ["outbox", "Outbox"],
  ["progress", "Deployments"],
  ["audit", "Audit"],
];
const PARTS = { agent: "overview", topic: "overview" }; // views that belong to another one

const Fact = ({ name, children }) =>
  html`<div class="fact">
    <dt>${name}</dt>
    <dd>${children}</dd>
  </div>`;

const Switch = ({ name, label, values }) =>
  html`<label class="switch"
    ><span>${label}</span>
    <select id=${`prefer-${name}`} onChange=${(event) => prefer(name, event.target.value)}>
      ${values.map((value) => html`<option value=${value} selected=${value === settings[name]}>${value}</option>`)}
    </select></label
  >`;

function Facts() {
  const { about, overview } = live;
  if (!about || !overview) return null;
  const ready = overview.workers.filter((each) => each.ready).length;
  const level = overview.workers.map((each) => each.level).find(Boolean);
  return html`<dl class="facts" aria-label="This run">
    <${Fact} name="Workers">${`${ready} of ${overview.workers.length} ready`}<//>
    <${Fact} name="Store">${about.store}<//>
    <${Fact} name="Durability"
      ><span title=${level ? level.reasons.join("; ") : ""}>${level ? level.name : "not known yet"}</span><//
    >
    <${Fact} name="Broker">${about.broker}<//>
    <${Fact} name="Version">${about.version}<//>
  </dl>`;
}

const Logo = () =>
  html`<svg class="logo" viewBox="0 0 32 32" width="26" height="26" aria-hidden="true">
    <rect x="1" y="1" width="30" height="30" rx="7" class="plate" />
    <path d="M8 6v20M24 6v20M8 11h16M8 17h16" class="gate" />
    <path d="M6 24c3-2.6 5-2.6 8 0s6 2.6 12 0" class="water" />
  </svg>`;

function Navigation({ view }) {
  const at = PARTS[view] || view,
    badges = { dead: live.overview && dead(live.overview) };
  return html`<nav aria-label="Views">
    <ul>
      ${PLACES.map(
        ([name, title]) =>
          html`<li>
            <a href=${link(name)} id=${`tab-${name}`} aria-current=${name === at ? "page" : null}
              >${title}${
                badges[name]
                  ? html` <${Badge} kind=${intended.letters ? "" : "bad"}
                      >${badges[name].toLocaleString("en")}${
                        intended.letters ? null : html`<span class="hidden"> to look at</span>`
                      }<//
                    >`
                  : null
              }</a
            >
          </li>`,
      )}
    </ul>
  </nav>`;
}

export function Frame({ view, title, children }) {
  const { overview, about, error } = live;
  const state = overview ? `${overview.phase}, ${overview.ready ? "ready" : "not ready"}` : "connecting";
  return html`<div class="frame">
    <a
      class="skip"
      href="#view"
      onClick=${(event) => {
        event.preventDefault();
        document.getElementById("view").focus();
      }}
      >Skip to the content</a
    >
    <aside class="side">
      <div class="brand">
        <${Logo} />
        <div>
          <span class="app">${about ? about.app : "Sluicegate"}</span>
          <span
            id="state"
            role="status"
            aria-live="polite"
            class=${overview ? (overview.ready ? "good" : "bad") : "soft"}
            >${state}</span
          >
        </div>
      </div>
      <${Navigation} view=${view} />
      <div class="preferences">
        <${Switch} name="theme" label="Theme" values=${THEMES} /><${Switch}
          name="zone"
          label="Times"
          values=${ZONES}
        />
      </div>
    </aside>
    <div class="content">
      <header>
        <h1>${title}</h1>
        <${Facts} />
      </header>
      ${error && html`<p id="error" class="notice bad" role="alert">${error}</p>`}
      <main id="view" tabindex="-1" aria-label=${title}>${
        children || html`<p class="soft" role="status">${live.reading || "Reading …"}</p>`
      }</main>
    </div>
    <${Dialogs} />
  </div>`;
}
