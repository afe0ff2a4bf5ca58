// One agent: what its rule says, its partitions, and what belongs to it.
import { html } from "../core/html.js";
import { partitions, totals } from "../core/model.js";
import { keep, past } from "../core/past.js";
import { count, counted } from "../core/text.js";
import { Empty, ReadAt, Tile, To } from "../parts/controls.js";
import { Errors } from "../parts/errors.js";
import { Hour } from "../parts/hour.js";
import { Partitions } from "../parts/partitions.js";
import { Payload } from "../parts/payload.js";

export const title = "Agent";
export const heading = ({ name }) => `Agent ${name}`;
export const asks = ({ name, version }) => [
  ["partitions", {}, true],
  ["rule", { agent: name, version }],
  ["history", { since: past.newest || "" }],
];

const Topics = ({ names }) =>
  names.map((name, at) => html`${at ? ", " : ""}<${To} view="topic" fields=${{ name }}>${name}<//>`);

export function content({ name, version }, { partitions: stored, rule, history }, overview) {
  keep(history);
  const agent = overview.agents.find((each) => each.name === name);
  if (!agent) return html`<${Empty} title=${`There is no agent ${name}.`} />`;
  const rows = partitions(overview, stored.partitions || []).filter((row) => row.agent === name),
    all = totals(rows);
  return html`<p class="crumbs"><${To} view="overview">Overview<//> / <strong>${name}</strong></p>
    <dl class="tiles">
      <${Tile} name="Reads"><${Topics} names=${agent.topics} /><//>
      <${Tile} name="Writes">${agent.to.length ? html`<${Topics} names=${agent.to} />` : "nothing"}<//>
      <${Tile} name="Lag">${count(all.lag)}<//>
      <${Tile} name="Open groups"
        >${
          agent.groups
            ? html`<${To} view="groups" fields=${{ agent: name }}>${count(all.groups)}<//>`
            : "none: it has no groups"
        }<//
      >
      <${Tile} name="Dead"
        ><${To} view="dead" fields=${{ agent: name }}
          >${!overview.dead ? "not known" : counted(overview.dead[name] || 0, "letter")}<//
        ><//
      >
      <${Tile} name="Rule"
        ><${To} view="progress" fields=${{ agent: name }}
          >${rule.version ? `version ${rule.version}` : "not deployed"}<//
        ><//
      >
    </dl>
    <${Partitions} rows=${rows} agent=${name} />
    <${Hour} agents=${[name]} />
    <${Errors} rows=${past.errors.filter((each) => each.agent === name)} />
    <section class="card" aria-label="Rule">
      <${Payload} title=${version ? `Rule, version ${version}` : "Rule"} text=${rule.text} />
    </section>
    ${stored.failed ? html`<p class="soft">${stored.failed}</p>` : html`<${ReadAt} age=${stored.age} />`}`;
}
