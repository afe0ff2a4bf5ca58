// The open groups of one agent.
import { html } from "../core/html.js";
import { failed, read } from "../core/live.js";
import { question } from "../core/server.js";
import { count, span } from "../core/text.js";
import { Button, Choice, Empty, Pages, ReadAt, Search, Time, To } from "../parts/controls.js";
import { confirm, detail } from "../parts/dialogs.js";
import { Payload } from "../parts/payload.js";
import { Table } from "../parts/table.js";

export const title = "Groups";
const ORDER = "-age";
const LATE = [
  ["", "all"],
  ["yes", "overdue only"],
];
const OLDER = [
  ["", "any age"],
  ["60", "over 1 minute"],
  ["600", "over 10 minutes"],
  ["3600", "over 1 hour"],
  ["86400", "over 1 day"],
];

// What the open groups wait for, and what was chosen before.
const waits = (there, chosen) => [
  ["", "anything"],
  ...[...new Set([...there, ...(chosen ? [chosen] : [])])].map((name) => [name, name]),
];

const agentOf = (fields, overview) => fields.agent || (overview.agents.find((each) => each.groups) || {}).name;

export function asks(fields, overview) {
  const agent = agentOf(fields, overview);
  return agent ? [["groups", { order: ORDER, ...fields, agent }]] : [];
}

const anew = (agent) => async () => {
  try {
    await question("groups", { agent, fresh: "yes" });
    await read();
  } catch (error) {
    failed(error);
  }
};

const named = (agent, row) => ({
  agent,
  key: row.name,
  place: row.place,
  ...(row.window ? { window: row.window } : {}),
});

async function why(agent, row) {
  try {
    const { groups } = await question("why", named(agent, row));
    detail(
      row.text,
      groups.length
        ? groups.map(
            (each) =>
              html`<p>${each.why}</p>
                <p><${To} view="agent" fields=${{ name: agent }}>Rule of ${agent}<//></p>
                <${Payload} title="Values" text=${JSON.stringify(each.values)} />`,
          )
        : html`<p>It ended meanwhile.</p>`,
    );
  } catch (error) {
    failed(error);
  }
}

const actions = (agent, row) =>
  html`<span class="actions">
    <${Button} kind="small" label=${`why ${row.text}`} act=${() => why(agent, row)}>Why<//>
    <${Button}
      kind="small"
      label=${`fire ${row.text}`}
      act=${() => confirm("fire", "Fire", `Fire ${row.text} now?`, named(agent, row))}
      >Fire<//
    >
    <${Button}
      kind="small danger"
      label=${`drop ${row.text}`}
      act=${() => {
        const question = `Forget ${row.count} records of ${row.text}? Nothing of them is ever sent.`;
        confirm("drop", "Drop", question, named(agent, row), true);
      }}
      >Drop<//
    ></span
  >`;

const columns = (agent, windows) => [
  { title: "key", value: (row) => row.text, order: "key", kind: "text" },
  { title: "partition", value: (row) => row.place },
  ...(windows ? [{ title: "window", value: (row) => html`<${Time} at=${row.window} />` }] : []),
  { title: "records", value: (row) => count(row.count), order: "count", kind: "number" },
  { title: "age", value: (row) => span(row.age), order: "age", kind: "number" },
  {
    title: "fires in",
    value: (row) => html`<span class=${row.fires_in < -1 ? "bad" : ""}>${span(row.fires_in) || "–"}</span>`,
    order: "due",
    kind: "number",
  },
  { title: "waits for", value: (row) => row.waits },
  { title: "bytes", value: (row) => count(row.bytes), order: "bytes", kind: "number" },
  { title: "owner", value: (row) => row.owner, kind: "text" },
  { title: "", value: (row) => actions(agent, row) },
];

export function content(fields, { groups: answer }, overview) {
  const agents = overview.agents.filter((each) => each.groups),
    agent = agentOf(fields, overview);
  if (!agents.length)
    return html`<${Empty} title="No agent has groups."
      >An agent collects records into groups when it has <code>aggregate</code>.<//
    >`;
  if (!answer) return null;
  const filtered = fields.search || fields.place || fields.late || fields.older || fields.waits;
  const empty = filtered
    ? html`<${Empty} title="No group is open."
        >None of ${count(answer.open)} open groups matches.${" "}
        <${To} view="groups" fields=${{ agent }}>Show all of ${agent}<//><//
      >`
    : html`<${Empty} title="No group is open."
        >A group opens with the first record of its key, and ends with its count, its timeout, or what the rule
        says. <${To} view="agent" fields=${{ name: agent }}>The rule of ${agent}<//><//
      >`;
  return html`<div class="bar">
      <${Choice}
        label="Agent"
        field="agent"
        value=${agent}
        options=${agents.map((each) => [each.name, each.name])}
      />
      <${Search} label="Search" field="search" value=${fields.search} hint="part of the key" />
      <${Choice} label="Show" field="late" value=${fields.late} options=${LATE} />
      <${Choice} label="Age" field="older" value=${fields.older} options=${OLDER} />
      <${Choice}
        label="Waits for"
        field="waits"
        value=${fields.waits}
        options=${waits(answer.waits, fields.waits)}
      />
      ${
        fields.place &&
        html`<${To}
          view="groups"
          fields=${{ ...fields, place: "", first: "" }}
          label=${`show all partitions, not only ${fields.place}`}
          >only ${fields.place} ✕<//
        >`
      }
    </div>
    <${Table}
      caption="Open groups"
      columns=${columns(
        agent,
        answer.groups.some((row) => row.window),
      )}
      rows=${answer.groups}
      order=${fields.order || ORDER}
      empty=${empty}
      name=${(row) => `${row.place}/${row.name}/${row.window}`}
    />
    <${Pages} content=${answer} />
    ${
      answer.unlisted > 0 &&
      html`<p class="notice warn">
        ${count(answer.unlisted)} more open groups are not listed. <code>sluicegate groups ls</code> lists all.
      </p>`
    }
    <${ReadAt} age=${answer.age} again=${anew(agent)} />`;
}
