// What went in, what was counted, and the buttons that kill.
import { Component, html } from "../core/html.js";
import { read } from "../core/live.js";
import { change } from "../core/server.js";
import { count, counted } from "../core/text.js";
import { Badge, Button } from "../parts/controls.js";
import { Table } from "../parts/table.js";

class Kills extends Component {
  render({ agents, running }, { error }) {
    const kill = async (agent) => {
      this.setState({ error: "" });
      try {
        await change("kill", { agent });
      } catch (problem) {
        this.setState({ error: problem.message });
      }
      read();
    };
    return html`<div class="bar">
      ${agents.map(
        (row) =>
          html`<${Button} kind="danger" act=${() => kill(row.agent)} disabled=${!running(row)}
            >kill -9 ${row.agent}<//
          >`,
      )}
      ${error && html`<span class="bad" role="alert">${error}</span>`}
    </div>`;
  }
}

const Tile = ({ name, value, kind }) =>
  html`<div class="tile">
    <dt>${name}</dt>
    <dd class=${kind || ""}>${value}</dd>
  </div>`;

const columns = (running) => [
  { title: "agent", value: (row) => row.agent },
  { title: "reads", value: (row) => row.reads },
  { title: "sent", value: (row) => count(row.sent), kind: "number" },
  { title: "counted", value: (row) => count(row.counted), kind: "number" },
  { title: "lost", value: (row) => html`<${Wrong} value=${row.lost} />`, kind: "number" },
  { title: "repeated", value: (row) => html`<${Wrong} value=${row.repeated} />`, kind: "number" },
  { title: "kills survived", value: (row) => `${count(row.survived)} of ${count(row.kills)}`, kind: "number" },
  {
    title: "process",
    value: (row) => html`<${Badge} kind=${running(row) ? "good" : "warn"}>${running(row) ? "runs" : "starts"}<//>`,
  },
];

const Wrong = ({ value }) => html`<span class=${value ? "bad" : "good"}>${count(value)}</span>`;

const sum = (rows, name) => rows.reduce((all, row) => all + row[name], 0);

function verdict({ total, done, agents }) {
  if (sum(agents, "lost") + sum(agents, "repeated") + sum(agents, "wrong"))
    return ["The numbers are wrong", "This is an error of Sluicegate, unless you dropped a group or retried a letter."];
  if (done) return [`All ${counted(total, "flight")} are counted`, "None is lost, none is counted twice."];
  return [
    "Kill a worker",
    "Its groups are in the store. Its next process goes on with them, and the numbers stay right.",
  ];
}

export function Numbers({ numbers, workers }) {
  if (!numbers || numbers.failed) return html`<p class="soft">The demo begins …</p>`;
  const { agents } = numbers,
    [flights] = agents,
    [title, text] = verdict(numbers),
    kind = (value) => (value ? "bad" : "good"),
    running = (row) => workers.some((each) => each.agent === row.agent && each.pid !== null);
  const [lost, repeated, wrong] = ["lost", "repeated", "wrong"].map((name) => sum(agents, name));
  return html`<section
      class=${`card verdict ${lost + repeated + wrong ? "troubled" : "well"}`}
      aria-label="The demo"
    >
      <h2>${title}</h2>
      <p class="soft" role="status">${text}</p>
      <${Kills} agents=${agents} running=${running} />
    </section>
    <dl class="tiles" aria-label="Numbers of the demo">
      <${Tile} name=${`Sent of ${counted(numbers.total, "flight")}`} value=${count(flights.sent)} />
      <${Tile} name="Counted" value=${count(flights.counted)} />
      <${Tile} name="Lost" value=${count(lost)} kind=${kind(lost)} />
      <${Tile} name="Repeated" value=${count(repeated)} kind=${kind(repeated)} />
      <${Tile} name="Kills survived" value=${count(sum(agents, "survived"))} />
    </dl>
    <${Table}
      caption="Agents of the demo"
      columns=${columns(running)}
      rows=${agents}
      order=""
      name=${(row) => row.agent}
    />`;
}
