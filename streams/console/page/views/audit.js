// The changes by operators.
import { html } from "../core/html.js";
import { Empty, Pages, ReadAt, Search, Time, To } from "../parts/controls.js";
import { Table } from "../parts/table.js";

export const title = "Audit";
export const asks = ({ first, search }) => [["audit", { first, search }]];

const COLUMNS = [
  { title: "at", value: (row) => html`<${Time} at=${row.at} />` },
  { title: "who", value: (row) => row.who, kind: "text" },
  { title: "what", value: (row) => row.what },
  {
    title: "agent",
    value: (row) => row.agent && html`<${To} view="agent" fields=${{ name: row.agent }}>${row.agent}<//>`,
  },
  { title: "topic", value: (row) => row.topic },
  { title: "partition", value: (row) => row.partition, kind: "number" },
  { title: "key", value: (row) => row.key, kind: "text" },
  { title: "why", value: (row) => row.why, kind: "text" },
];

export const content = (fields, { audit: answer }) =>
  html`<div class="bar">
      <${Search} label="Search" field="search" value=${fields.search} hint="who, what, key, why" />
    </div>
    <${Table}
      caption="Changes by operators within 30 days"
      columns=${COLUMNS}
      rows=${answer.changes}
      order=""
      empty=${html`<${Empty} title="Nothing was changed.">
        Each change of the console and of the commands is kept here with its reason.
      <//>`}
    />
    <${Pages} content=${answer} /><${ReadAt} age=${answer.age} />`;
