// One topic: the agents that read and write it, and its partitions.
import { html } from "../core/html.js";
import { partitions, totals } from "../core/model.js";
import { count } from "../core/text.js";
import { Empty, ReadAt, Tile, To } from "../parts/controls.js";
import { Partitions } from "../parts/partitions.js";

export const title = "Topic";
export const heading = ({ name }) => `Topic ${name}`;
export const asks = () => [["partitions", {}, true]];

const Agents = ({ names }) =>
  names.length
    ? names.map((name, at) => html`${at ? ", " : ""}<${To} view="agent" fields=${{ name }}>${name}<//>`)
    : "no agent of this file";

export function content({ name }, { partitions: stored }, overview) {
  const rows = partitions(overview, stored.partitions || []).filter((row) => row.topic === name),
    all = totals(rows);
  const names = (field) => overview.agents.filter((each) => each[field].includes(name)).map((each) => each.name);
  const readers = [...new Set([...names("topics"), ...rows.map((row) => row.agent)])], // `topics` may have a pattern
    writers = names("to");
  if (!readers.length && !writers.length)
    return html`<${Empty} title=${`No agent of this file reads or writes ${name}.`} />`;
  return html`<p class="crumbs"><${To} view="overview">Overview<//> / <strong>${name}</strong></p>
    <dl class="tiles">
      <${Tile} name="Read by"><${Agents} names=${readers} /><//>
      <${Tile} name="Written by"><${Agents} names=${writers} /><//>
      <${Tile} name="Lag">${readers.length ? count(all.lag) : "no agent of this file reads it"}<//>
      <${Tile} name="Open groups">${count(all.groups)}<//>
      <${Tile} name="Dead letters"><${To} view="dead" fields=${{ search: `${name}/` }}>of its records<//><//>
    </dl>
    ${readers.length ? html`<${Partitions} rows=${rows} />` : null}
    ${stored.failed ? html`<p class="soft">${stored.failed}</p>` : html`<${ReadAt} age=${stored.age} />`}`;
}
