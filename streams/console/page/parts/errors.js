// The last errors that workers reported.
import { html } from "../core/html.js";
import { Badge, Empty, Time, To } from "./controls.js";
import { Table } from "./table.js";

const COLUMNS = [
  { title: "at", value: (row) => html`<${Time} at=${row.at} />` },
  { title: "agent", value: (row) => html`<${To} view="agent" fields=${{ name: row.agent }}>${row.agent}<//>` },
  { title: "partition", value: (row) => row.topic && `${row.topic}/${row.partition}` },
  { title: "error", value: (row) => html`<${Badge} kind="bad">${row.error}<//>` },
  { title: "text", value: (row) => row.detail, kind: "text" },
];

export const Errors = ({ rows }) =>
  html`<${Table}
    caption="Last errors"
    columns=${COLUMNS}
    rows=${rows}
    order=""
    empty=${html`<${Empty} title="No error since the start of this run.">
      A partition that halts or waits, and a process that ends, are listed here.
    <//>`}
  />`;
