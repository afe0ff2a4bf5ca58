// The table of partitions, which the overview and the page of an agent share.
import { html } from "../core/html.js";
import { waiting } from "../core/model.js";
import { count, span } from "../core/text.js";
import { Badge, Empty, To } from "./controls.js";
import { Table } from "./table.js";

const KINDS = { running: "good", halted: "bad", claiming: "warn", restoring: "warn", paused: "warn" };
const State = ({ row }) => html`<${Badge} kind=${KINDS[row.state] || "plain"}>${row.state || "another run"}<//>`;
const owner = (row) => (row.worker === undefined ? row.owner : `worker ${row.worker}`);

const AGENT = {
  title: "agent",
  value: (row) => html`<${To} view="agent" fields=${{ name: row.agent }}>${row.agent}<//>`,
  by: (row) => row.agent,
};
const COLUMNS = [
  {
    title: "topic",
    value: (row) => html`<${To} view="topic" fields=${{ name: row.topic }}>${row.topic}<//>`,
    by: (row) => row.topic,
  },
  { title: "partition", value: (row) => row.partition, by: (row) => row.partition, kind: "number" },
  { title: "state", value: (row) => html`<${State} row=${row} />`, by: (row) => row.state },
  { title: "owner", value: (row) => html`<span title=${row.owner || ""}>${owner(row)}</span>`, by: owner },
  { title: "lag", value: (row) => count(row.state ? row.lag : null), by: (row) => row.lag, kind: "number" },
  {
    title: "open groups",
    value: (row) =>
      row.groups
        ? html`<${To} view="groups" fields=${{ agent: row.agent, place: `${row.topic}/${row.partition}` }}
            >${count(row.groups)}<//
          >`
        : count(row.groups),
    by: (row) => row.groups,
    kind: "number",
  },
  { title: "oldest", value: (row) => span(row.oldest), by: (row) => row.oldest, kind: "number" },
  {
    title: "next deadline",
    value: (row) =>
      html`<span class=${row.next_deadline < -1 ? "bad" : ""}>${span(row.next_deadline) || "–"}</span>`,
    by: (row) => row.next_deadline,
    kind: "number",
  },
  { title: "unsent", value: (row) => count(row.unsent), by: (row) => row.unsent, kind: "number" },
  { title: "offset", value: (row) => count(row.offset), by: (row) => row.offset, kind: "number" },
  {
    title: "watermark behind",
    value: (row) => span(row.watermark_lag),
    by: (row) => row.watermark_lag,
    kind: "number",
  },
  { title: "why it waits", value: (row) => waiting(row), kind: "text" },
];

const HIDDEN = {
  "watermark behind": (row) => row.watermark_lag !== null && row.watermark_lag !== undefined,
  "why it waits": waiting,
};

export function Partitions({ rows, agent, note }) {
  const columns = (agent ? COLUMNS : [AGENT, ...COLUMNS]).filter(
    ({ title }) => !HIDDEN[title] || rows.some(HIDDEN[title]),
  );
  const empty = html`<${Empty} title="No partition is read yet."
    >A worker claims its partitions a few seconds after its start. The topics must exist:${" "}
    <code>sluicegate topics FILE --create</code> makes them.<//
  >`;
  return html`<${Table}
    caption="Partitions"
    columns=${columns}
    rows=${rows}
    empty=${empty}
    note=${note}
    name=${(row) => `${row.agent}/${row.topic}/${row.partition}`}
  />`;
}
