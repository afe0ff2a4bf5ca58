// The outbox of applications and leased contracts: its states, lanes and rows.
import { html } from "../core/html.js";
import { count } from "../core/text.js";
import { Button, Choice, Empty, Time } from "../parts/controls.js";
import { confirm } from "../parts/dialogs.js";
import { Table } from "../parts/table.js";

export const title = "Outbox";
export const asks = ({ state }) => [["outbox", { state }]];

const STATES = [
  ["", "all"],
  ["pending", "pending"],
  ["dispatched", "dispatched"],
  ["dead", "dead"],
];
const LANES = [
  { title: "lane", value: (row) => row.lane, by: (row) => Number(row.lane), kind: "number" },
  { title: "pending", value: (row) => count(row.pending), by: (row) => row.pending, kind: "number" },
  { title: "oldest", value: (row) => html`<${Time} at=${row.oldest} />`, by: (row) => row.oldest },
  { title: "attempts", value: (row) => row.attempts, by: (row) => row.attempts, kind: "number" },
];
const actions = (row) =>
  html`<span class="actions">
    ${
      row.state === "dead" &&
      html`<${Button}
        kind="small"
        label=${`retry ${row.id}`}
        act=${() => confirm("outbox/retry", "Retry", `Send row ${row.id} again?`, { ids: [row.id] })}
        >Retry<//
      >`
    }
    ${
      row.state !== "dispatched" &&
      html`<${Button}
        kind="small danger"
        label=${`drop ${row.id}`}
        act=${() => confirm("outbox/drop", "Drop", `Delete row ${row.id} unsent?`, { ids: [row.id] }, true)}
        >Drop<//
      >`
    }</span
  >`;
const ROWS = [
  { title: "created", value: (row) => html`<${Time} at=${row.created_at} />`, by: (row) => row.created_at },
  { title: "state", value: (row) => row.state, by: (row) => row.state },
  { title: "topic", value: (row) => row.topic, by: (row) => row.topic },
  { title: "key", value: (row) => row.key, by: (row) => row.key, kind: "text" },
  { title: "lane", value: (row) => row.lane, by: (row) => row.lane, kind: "number" },
  { title: "attempts", value: (row) => row.attempts, by: (row) => row.attempts, kind: "number" },
  { title: "reason", value: (row) => row.reason, kind: "text" },
  { title: "id", value: (row) => row.id, kind: "text" },
  { title: "", value: actions },
];

export function content(fields, { outbox: answer }) {
  const lanes = Object.entries(answer.lanes).map(([lane, row]) => ({ lane, ...row }));
  return html`<dl class="tiles">
      ${Object.entries(answer.counts).map(
        ([state, rows]) =>
          html`<div class="tile">
            <dt>${state}</dt>
            <dd class=${state === "dead" && rows ? "bad" : ""}>${count(rows)}</dd>
          </div>`,
      )}
    </dl>
    <${Table}
      caption="Lanes with pending rows"
      columns=${LANES}
      rows=${lanes}
      field="lanes"
      name=${(row) => row.lane}
      empty=${html`<${Empty} title="No lane waits.">
        All rows that applications wrote are sent. <code>app.outbox</code> of the library writes rows in your own
        transaction.
      <//>`}
    />
    <div class="bar"><${Choice} label="State" field="state" value=${fields.state} options=${STATES} /></div>
    <${Table}
      caption="Rows"
      columns=${ROWS}
      rows=${answer.rows}
      name=${(row) => row.id}
      empty=${html`<${Empty} title="No row." />`}
    />
    <p class="soft">Lanes are counted from ${count(answer.lanes_of)} pending rows.</p>`;
}
