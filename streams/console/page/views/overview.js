// Is all well, what is slow, what failed.
import { html } from "../core/html.js";
import { dead, intended, partitions, totals } from "../core/model.js";
import { keep, latest, past } from "../core/past.js";
import { count, counted, short, span } from "../core/text.js";
import { Badge, Empty, ReadAt, To } from "../parts/controls.js";
import { Errors } from "../parts/errors.js";
import { Graph } from "../parts/graph.js";
import { Hour } from "../parts/hour.js";
import { Partitions } from "../parts/partitions.js";
import { Table } from "../parts/table.js";

export const title = "Overview";
export const asks = () => [
  ["partitions", {}, true],
  ["history", { since: past.newest || "" }],
];

const Problem = ({ kind, view, fields, text }) =>
  html`<li>
    <${To} view=${view} fields=${fields}><${Badge} kind=${kind}>${text}<//><//>
  </li>`;

function problems(overview, rows) {
  const { halted, late } = totals(rows),
    deaths = dead(overview),
    made = [];
  for (const row of halted)
    made.push({
      kind: "bad",
      view: "agent",
      fields: { name: row.agent },
      text: `${row.topic}/${row.partition} of ${row.agent} halted`,
    });
  for (const each of overview.reasons)
    made.push({
      kind: "bad",
      view: each.agent && each.agent !== "dispatcher" ? "agent" : "overview",
      fields: { name: each.agent },
      text: `${each.agent ? `${each.agent}: ` : ""}${each.reason}`,
    });
  for (const each of overview.degraded)
    made.push({ kind: "warn", view: "agent", fields: { name: each.agent }, text: `${each.agent}: ${each.reason}` });
  if (late.length)
    made.push({
      kind: "bad",
      view: "groups",
      fields: { agent: late[0].agent, late: "yes" },
      text: `overdue groups in ${counted(late.length, "partition")}`,
    });
  if (intended.letters) return made;
  if (deaths) {
    const text = `${counted(deaths, "dead letter")}, counted ${ago(overview)}`;
    made.push({ kind: "bad", view: "dead", text });
  }
  if (overview.dead_since) {
    const since = deaths === null ? "in this run" : "since they were counted";
    made.push({ kind: "bad", view: "dead", text: `${counted(overview.dead_since, "new dead letter")} ${since}` });
  }
  return made;
}

const ago = ({ dead_age }) => (dead_age < 1 ? "now" : `${span(dead_age)} ago`);

function letters(overview) {
  const deaths = dead(overview),
    all = (deaths || 0) + overview.dead_since;
  if (intended.letters && all) return `${counted(all, "dead letter")}: ${intended.letters}.`;
  return deaths === null ? "Dead letters are not counted." : `Nothing is dead, as counted ${ago(overview)}.`;
}

function Verdict({ overview, rows }) {
  const made = problems(overview, rows),
    { lag } = totals(rows),
    quiet = dead(overview) === null ? "No problem is reported" : "All is well";
  return html`<section class=${`card verdict ${made.length ? "troubled" : "well"}`} aria-label="State">
    <h2>${made.length ? `${counted(made.length, "thing")} to look at` : quiet}</h2>
    ${
      made.length
        ? html`<ul class="problems">
            ${made.map((each) => html`<${Problem} ...${each} />`)}
          </ul>`
        : html`<p class="soft">
            Every worker is ready, no partition is halted, nothing is overdue.${" "}
            ${letters(overview)}${" "}
            ${lag ? `${counted(lag, "record")} to read.` : "All records are read."}
          </p>`
    }
  </section>`;
}

function flow(agent, overview, rows) {
  const own = rows.filter((row) => row.agent === agent.name),
    all = totals(own),
    now = latest(agent.name);
  const deaths = overview.dead && overview.dead[agent.name],
    parts = [];
  if (agent.groups) parts.push(`${short(all.groups)} open`);
  if (all.lag) parts.push(`lag ${short(all.lag)}`);
  if (deaths) parts.push(`${short(deaths)} dead`);
  const bad = all.halted.length || all.late.length,
    warns = (deaths && !intended.letters) || all.waits.length,
    kind = bad ? "bad" : warns ? "warn" : "good";
  return {
    name: agent.name,
    topics: agent.topics,
    to: agent.to,
    note: parts.join(" · ") || "reads all",
    kind,
    sent: (topic) => now && (agent.to.length === 1 ? now.sent : now.outputs[topic] || 0),
    rate: (topic) => now && (agent.topics.length === 1 ? now.read : now.topics[topic] || 0),
  };
}

const sum = (rows, agent, name) =>
  rows.filter((each) => each.agent === agent).reduce((all, each) => all + Math.max(0, each[name] || 0), 0);
const rate = (agent, name) => {
  const now = latest(agent);
  return now && now[name];
};

const agents = (overview, rows) => [
  {
    title: "agent",
    value: (row) => html`<${To} view="agent" fields=${{ name: row.name }}>${row.name}<//>`,
    by: (row) => row.name,
  },
  { title: "reads", value: (row) => row.topics.join(", "), kind: "text" },
  { title: "writes", value: (row) => row.to.join(", "), kind: "text" },
  {
    title: "in /s",
    value: (row) => short(rate(row.name, "read")),
    by: (row) => rate(row.name, "read"),
    kind: "number",
  },
  {
    title: "out /s",
    value: (row) => short(rate(row.name, "sent")),
    by: (row) => rate(row.name, "sent"),
    kind: "number",
  },
  {
    title: "lag",
    value: (row) => count(sum(rows, row.name, "lag")),
    by: (row) => sum(rows, row.name, "lag"),
    kind: "number",
  },
  {
    title: "open groups",
    value: (row) =>
      html`<${To} view="groups" fields=${{ agent: row.name }}>${count(sum(rows, row.name, "groups"))}<//>`,
    by: (row) => sum(rows, row.name, "groups"),
    kind: "number",
  },
  {
    title: "dead",
    value: (row) =>
      overview.dead &&
      html`<${To} view="dead" fields=${{ agent: row.name }}>${count(overview.dead[row.name] || 0)}<//>`,
    by: (row) => overview.dead && overview.dead[row.name],
    kind: "number",
  },
  { title: "delivery", value: (row) => row.delivery },
];
const WORKERS = [
  { title: "agent", value: (row) => row.agent, by: (row) => row.agent },
  { title: "worker", value: (row) => row.worker, by: (row) => row.worker, kind: "number" },
  {
    title: "state",
    value: (row) => html`<${Badge} kind=${row.ready ? "good" : "bad"}>${row.ready ? "ready" : "not ready"}<//>`,
  },
  { title: "reasons", value: (row) => row.reasons.join("; "), kind: "text" },
  { title: "process", value: (row) => row.pid, kind: "number" },
  { title: "runs for", value: (row) => span(row.seconds), by: (row) => row.seconds, kind: "number" },
];

export function content(_, { partitions: stored, history }, overview) {
  keep(history);
  const rows = partitions(overview, stored.partitions || []);
  return html`<${Verdict} overview=${overview} rows=${rows} />
    <${Graph} agents=${overview.agents.map((each) => flow(each, overview, rows))} />
    <${Hour} agents=${overview.agents.map((each) => each.name)} />
    <${Table}
      caption="Agents"
      columns=${agents(overview, rows)}
      rows=${overview.agents}
      field="agents"
      name=${(row) => row.name}
    />
    <${Errors} rows=${past.errors} />
    <${Partitions} rows=${rows} />
    <${Table}
      caption="Workers of this run"
      columns=${WORKERS}
      rows=${overview.workers}
      field="workers"
      name=${(row) => `${row.agent}/${row.worker}`}
      empty=${html`<${Empty} title="No worker should run." />`}
    />
    ${stored.failed ? html`<p class="soft">${stored.failed}</p>` : html`<${ReadAt} age=${stored.age} />`}`;
}
