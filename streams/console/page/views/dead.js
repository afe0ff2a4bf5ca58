// Dead letters and dead rows, by their cause and one by one.
import { Component, html } from "../core/html.js";
import { failed } from "../core/live.js";
import { question } from "../core/server.js";
import { count, counted, span } from "../core/text.js";
import { Badge, Button, Choice, Empty, Pages, ReadAt, Search, To } from "../parts/controls.js";
import { confirm, detail } from "../parts/dialogs.js";
import { Payload } from "../parts/payload.js";
import { Table } from "../parts/table.js";

export const title = "Dead letters";
export const asks = (fields, _, opened) => [["dead", opened ? { ...fields, fresh: "yes" } : fields]];

const TIMES = [
  ["", "any time"],
  ["600", "last 10 minutes"],
  ["3600", "last hour"],
  ["86400", "last day"],
  ["604800", "last week"],
];

async function payload(row) {
  try {
    const content = await question("payload", { agent: row.agent, id: row.id });
    const columns = [
      { title: "header", value: (each) => each.name, kind: "text" },
      { title: "value", value: (each) => each.value, kind: "text" },
    ];
    detail(
      row.id,
      html`<p class="notice bad">${content.error}</p>
        <p><${To} view="agent" fields=${{ name: row.agent }}>Rule of ${row.agent}<//></p>
        <${Payload} title="Value" text=${content.value} /><${Payload} title="Key" text=${content.key} />
        <${Table}
          caption="Headers"
          columns=${columns}
          rows=${content.headers}
          empty=${html`<${Empty} title="It has no headers." />`}
        />`,
    );
  } catch (error) {
    failed(error);
  }
}

const retry = (agent, what, chosen) => confirm("retry", "Retry", `Send ${what} again?`, { agent, ...chosen });
const drop = (agent, what, chosen) =>
  confirm(
    "dead/drop",
    "Drop",
    `Drop ${what}? Rows are deleted unsent; letters stay in their topic and are listed no more.`,
    { agent, ...chosen },
    true,
  );

function both(agent, what, chosen, label) {
  return html`<span class="actions">
    <${Button} kind="small" label=${`retry ${label}`} act=${() => retry(agent, what, chosen)}>Retry<//>
    <${Button} kind="small danger" label=${`drop ${label}`} act=${() => drop(agent, what, chosen)}>Drop<//></span
  >`;
}

const CAUSES = (fields) => [
  { title: "count", value: (row) => count(row.size), by: (row) => row.size, kind: "number" },
  {
    title: "error",
    value: (row) =>
      html`<${To}
        view="dead"
        fields=${{ ...fields, cause: row.cause, first: "" }}
        label=${`letters of the cause ${row.error}`}
        >${row.error || row.reason}<//
      >`,
    kind: "text",
  },
  {
    title: "agent",
    value: (row) => html`<${To} view="agent" fields=${{ name: row.agent }}>${row.agent}<//>`,
    by: (row) => row.agent,
  },
  { title: "stage", value: (row) => row.stage, by: (row) => row.stage },
  { title: "reason", value: (row) => html`<${Badge} kind="bad">${row.reason}<//>`, by: (row) => row.reason },
  { title: "newest", value: (row) => span(row.newest), by: (row) => row.newest, kind: "number" },
  { title: "oldest", value: (row) => span(row.oldest), by: (row) => row.oldest, kind: "number" },
  {
    title: "",
    value: (row) =>
      both(
        row.agent,
        `all ${counted(row.size, "letter")} of this cause`,
        { cause: row.cause },
        `all ${row.size} of ${row.cause}`,
      ),
  },
];

const letters = (selected, select) => [
  {
    title: "select",
    value: (row) =>
      html`<input
        type="checkbox"
        aria-label=${`select ${row.id}`}
        checked=${selected.has(`${row.agent} ${row.id}`)}
        onChange=${() => select(row)}
      />`,
  },
  { title: "id", value: (row) => row.id, kind: "text" },
  { title: "kind", value: (row) => row.kind },
  {
    title: "agent",
    value: (row) => html`<${To} view="agent" fields=${{ name: row.agent }}>${row.agent}<//>`,
    order: "agent",
  },
  { title: "stage", value: (row) => row.stage },
  { title: "reason", value: (row) => html`<${Badge} kind="bad">${row.reason}<//>`, order: "reason" },
  { title: "attempts", value: (row) => row.attempts, order: "attempts", kind: "number" },
  { title: "age", value: (row) => span(row.age), order: "age", kind: "number" },
  {
    title: "error",
    value: (row) => html`${row.error}${row.retried && html` <${Badge} kind="plain">retried<//>`}`,
    kind: "text",
  },
  {
    title: "",
    value: (row) =>
      html`<span class="actions"
        ><${Button} kind="small" label=${`payload ${row.id}`} act=${() => payload(row)}>Payload<//>
        <${Button} kind="small" label=${`retry ${row.id}`} act=${() => retry(row.agent, row.id, { ids: [row.id] })}
          >Retry<//
        ></span
      >`,
  },
];

class Letters extends Component {
  constructor() {
    super();
    this.state = { selected: new Map() };
  }
  render({ rows, order, empty }, { selected }) {
    const here = new Map(rows.map((row) => [`${row.agent} ${row.id}`, row])),
      chosen = [...selected.keys()].filter((name) => here.has(name)).map((name) => here.get(name));
    const select = (row) => {
      const made = new Map(selected),
        name = `${row.agent} ${row.id}`;
      if (!made.delete(name)) made.set(name, row);
      this.setState({ selected: made });
    };
    const all = () => this.setState({ selected: chosen.length === rows.length ? new Map() : here });
    const agents = new Set(chosen.map((row) => row.agent)),
      ids = chosen.map((row) => row.id);
    const note = html`<div class="actions selection">
      ${
        rows.length > 0 &&
        html`<${Button} kind="small" label="select all of this page" act=${all}
          >${chosen.length === rows.length ? "Select none" : "Select all"}<//
        >`
      }
      ${
        chosen.length > 0 &&
        (agents.size === 1
          ? both(chosen[0].agent, counted(ids.length, "letter"), { ids }, `${ids.length} selected`)
          : html`<span class="soft">select letters of one agent</span>`)
      }
      ${chosen.length > 0 && html`<span class="soft">${counted(chosen.length, "letter")} selected</span>`}
    </div>`;
    return html`<${Table}
      caption="Dead letters and dead rows"
      columns=${letters(selected, select)}
      rows=${rows}
      order=${order}
      empty=${empty}
      note=${note}
      name=${(row) => `${row.agent} ${row.id}`}
    />`;
  }
}

export function content(fields, { dead: answer }, overview) {
  const filtered = fields.agent || fields.reason || fields.search || fields.since || fields.cause;
  const empty = filtered
    ? html`<${Empty} title="Nothing dead matches."
        >${answer.all ? html`${counted(answer.all, "dead letter")} in all. <${To} view="dead">Show all<//>` : ""}<//
      >`
    : html`<${Empty} title="Nothing is dead."
        >A record that cannot be decoded or handled becomes a dead letter, with its error and all its bytes. The
        next record goes on.<//
      >`;
  const agents = overview.agents.map((each) => [each.name, each.name]),
    reasons = answer.reasons.map((each) => [each, each]);
  return html`${answer.missing && html`<p class="notice warn">Dead letters cannot be read: ${answer.missing}</p>`}
    <div class="bar">
      <${Choice} label="Agent" field="agent" value=${fields.agent} options=${[["", "all"], ...agents]} />
      <${Choice} label="Reason" field="reason" value=${fields.reason} options=${[["", "all"], ...reasons]} />
      <${Choice} label="Time" field="since" value=${fields.since} options=${TIMES} />
      <${Search} label="Search" field="search" value=${fields.search} hint="id, key or error" />
      ${
        fields.cause &&
        html`<${To} view="dead" fields=${{ ...fields, cause: "", first: "" }} label="show all causes"
          >only the cause ${fields.cause} ✕<//
        >`
      }
    </div>
    ${
      answer.causes.length > 0 &&
      html`<${Table}
        caption="Causes"
        columns=${CAUSES(fields)}
        rows=${answer.causes}
        field="causes"
        name=${(row) => row.cause}
      />`
    }
    <${Letters} rows=${answer.dead} order=${fields.order || "age"} empty=${empty} />
    <${Pages} content=${answer} />
    ${answer.older > 0 && html`<p class="soft">${counted(answer.older, "older record")} were not looked at.</p>`}
    <${ReadAt} age=${answer.age} />`;
}
