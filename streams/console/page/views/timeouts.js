// Scheduled timeouts, and the schedules of the file.
import { html } from "../core/html.js";
import { count } from "../core/text.js";
import { Empty, Search, Time } from "../parts/controls.js";
import { Table } from "../parts/table.js";

export const title = "Timeouts";
export const asks = ({ destination, key }) => [["timeouts", { destination, key }]];

const SCHEDULES = [
  { title: "schedule", value: (row) => row.name, by: (row) => row.name },
  { title: "every", value: (row) => row.every },
  { title: "next", value: (row) => html`<${Time} at=${row.due_at} />`, by: (row) => row.due_at },
  { title: "topic", value: (row) => row.topic, by: (row) => row.topic },
  { title: "key", value: (row) => row.key, kind: "text" },
];
const COLUMNS = [
  { title: "due", value: (row) => html`<${Time} at=${row.due_at} />`, by: (row) => row.due_at },
  { title: "topic", value: (row) => row.destination, by: (row) => row.destination },
  { title: "key", value: (row) => row.key, kind: "text", by: (row) => row.key },
  { title: "owner", value: (row) => row.owner, by: (row) => row.owner },
  { title: "every", value: (row) => row.every },
  { title: "id", value: (row) => row.id },
];

const EXAMPLE = "schedules: {nightly: {every: 0 2 * * *, topic: reports.due}}";

export const content = (fields, { timeouts: answer }) =>
  html`<${Table}
      caption="Schedules"
      columns=${SCHEDULES}
      rows=${answer.schedules}
      field="schedules"
      name=${(row) => row.name}
      empty=${html`<${Empty} title="The file has no schedules.">
        A message can be sent again and again: <code>${EXAMPLE}</code>
      <//>`}
    />
    <div class="bar">
      <${Search} label="Topic" field="destination" value=${fields.destination} hint="whole name" />
      <${Search} label="Key" field="key" value=${fields.key} hint="whole key" />
    </div>
    <${Table}
      caption="Scheduled timeouts"
      columns=${COLUMNS}
      rows=${answer.timeouts}
      name=${(row) => row.id}
      empty=${html`<${Empty} title="No timeout is scheduled.">
        A handler schedules one with <code>schedule</code>: the message is sent when it is due, unless it is
        cancelled.
      <//>`}
    />
    <p class="soft">${answer.timeouts.length} shown of ${count(answer.count)}, earliest first.</p>`;
