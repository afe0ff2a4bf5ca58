// Versions of the rules, partitions on the way to the newest one, and replays.
import { html } from "../core/html.js";
import { count, counted } from "../core/text.js";
import { Choice, Empty, ReadAt, Time, To } from "../parts/controls.js";
import { Table } from "../parts/table.js";

export const title = "Deployments";
export const asks = () => [
  ["progress", {}],
  ["plan", {}, true],
];

const AGENT = {
  title: "agent",
  value: (row) => row.agent && html`<${To} view="agent" fields=${{ name: row.agent }}>${row.agent}<//>`,
  by: (row) => row.agent,
};
const WHO = [
  { title: "by", value: (row) => row.who, kind: "text" },
  { title: "why", value: (row) => row.why, kind: "text" },
];
const VERSIONS = [
  AGENT,
  { title: "version", value: (row) => row.number, by: (row) => row.number, kind: "number" },
  {
    title: "rule",
    value: (row) =>
      html`<${To} view="agent" fields=${{ name: row.agent, version: row.number }}><code>${row.digest}</code><//>`,
  },
  { title: "open groups", value: (row) => row.policy },
  { title: "deployed", value: (row) => html`<${Time} at=${row.at} />`, by: (row) => row.at },
  ...WHO,
];
const SWITCHING = [
  AGENT,
  { title: "topic", value: (row) => row.topic },
  { title: "partition", value: (row) => row.partition, kind: "number" },
  { title: "runs version", value: (row) => row.version, kind: "number" },
  {
    title: "earlier",
    value: (row) =>
      row.earlier.map((each) => `${counted(each.groups, "group")} of version ${each.version}`).join(", "),
  },
  { title: "records to read again", value: (row) => count(row.again), kind: "number" },
];
const REPLAYS = [
  AGENT,
  { title: "replay", value: (row) => row.number, by: (row) => row.number, kind: "number" },
  { title: "state", value: (row) => row.state },
  { title: "into", value: (row) => row.into },
  { title: "began", value: (row) => html`<${Time} at=${row.at} />`, by: (row) => row.at },
  {
    title: "offsets done",
    value: (row) => (row.done === null ? null : `${count(row.done)} of ${count(row.records)}`),
    kind: "number",
  },
  { title: "corrections", value: (row) => count(row.corrections), kind: "number" },
  ...WHO,
];

const text = (value) => (value === null ? "" : typeof value === "string" ? value : JSON.stringify(value));
const CHANGES = [
  AGENT,
  { title: "key of the file", value: (row) => html`<code>${row.path}</code>`, by: (row) => row.path },
  { title: "runs", value: (row) => text(row.from), kind: "text" },
  { title: "file", value: (row) => text(row.to), kind: "text" },
  { title: "what it changes", value: (row) => row.class, kind: "text" },
];
const OPEN = [
  AGENT,
  { title: "deployed with", value: (row) => html`<code>--open ${row.policy}</code>` },
  { title: "open groups", value: (row) => count(row.groups), kind: "number" },
  { title: "fire at once", value: (row) => count(row.fire), kind: "number" },
  { title: "refused", value: (row) => row.refused, kind: "text" },
];
const whole = (row) => (row.from === null ? "a new agent" : row.to === null ? "removed" : "");

function Plan({ plan }) {
  if (plan.failed || plan.error)
    return html`<p class="notice warn">The file cannot be compared: ${plan.failed || plan.error}</p>`;
  const rows = plan.agents.flatMap((row) =>
    row.changes.length
      ? row.changes.map((each) => ({ agent: row.name, ...each }))
      : [{ agent: row.name, path: "agents", from: null, to: whole(row), class: row.class }],
  );
  const open = plan.agents.flatMap((row) =>
    row.now && row.now.groups
      ? Object.entries(row.open).map(([policy, each]) => ({ agent: row.name, policy, ...each }))
      : [],
  );
  const beside = plan.file.map((path) => ({ path, from: "", to: "", class: "holds from the next start on" }));
  return html`${plan.refused.map((each) => html`<p class="notice warn">${each}</p>`)}
    <${Table}
      caption="If the file were deployed now"
      columns=${CHANGES}
      rows=${[...rows, ...beside]}
      field="changes"
      name=${(row) => `${row.agent} ${row.path}`}
      empty=${html`<${Empty} title="The file says what runs.">
        Change it, and see here what <code>sluicegate deploy FILE</code> would do. The values of past input:${" "}
        <code>sluicegate plan FILE</code>.
      <//>`}
    />
    ${
      open.length > 0 &&
      html`<${Table}
        caption="What happens to open groups"
        columns=${OPEN}
        rows=${open}
        field="open"
        name=${(row) => `${row.agent} ${row.policy}`}
      />`
    }`;
}

export function content(fields, { progress: answer, plan }) {
  const chosen = answer.agents.filter((row) => !fields.agent || row.agent === fields.agent);
  const all = (name) => chosen.flatMap((row) => row[name].map((each) => ({ agent: row.agent, ...each })));
  return html`<div class="bar">
      <${Choice}
        label="Agent"
        field="agent"
        value=${fields.agent}
        options=${[["", "all"], ...answer.agents.map((row) => [row.agent, row.agent])]}
      />
    </div>
    <${Plan} plan=${plan} />
    <${Table}
      caption="Versions of the rules"
      columns=${VERSIONS}
      rows=${all("versions")}
      field="versions"
      empty=${html`<${Empty} title="Nothing was deployed.">
        <code>sluicegate deploy FILE</code> records a version of each rule, and what happens to its open groups.
      <//>`}
    />
    <${Table}
      caption="Partitions with groups of an earlier version"
      columns=${SWITCHING}
      rows=${answer.switching.filter((row) => !fields.agent || row.agent === fields.agent)}
      field="switching"
      empty=${html`<${Empty} title="No partition has any." />`}
    />
    <${Table}
      caption="Replays"
      columns=${REPLAYS}
      rows=${all("replays")}
      field="replays"
      empty=${html`<${Empty} title="No results were corrected.">
        <code>sluicegate replay FILE AGENT</code> computes past results again under the rule of now.
      <//>`}
    />
    <${ReadAt} age=${answer.age} />`;
}
