// Topics and agents as a graph in layers, from the topics that are read to those that are written.
import { html } from "../core/html.js";
import { link } from "../core/route.js";
import { short } from "../core/text.js";

const WIDTH = 176,
  HEIGHT = 50,
  ACROSS = 96,
  DOWN = 22,
  EDGE = 12,
  LETTERS = 22,
  LEAST = 0.75; // the smallest scale

// The layer of each node: one more than the farthest node before it. An edge that closes a cycle counts not.
function layers(nodes, edges) {
  const before = new Map(
    [...nodes.keys()].map((name) => [name, edges.filter((edge) => edge.to === name).map((edge) => edge.from)]),
  );
  const depth = new Map(),
    open = new Set();
  const visit = (name) => {
    if (depth.has(name)) return depth.get(name);
    if (open.has(name)) return -1;
    open.add(name);
    const made = Math.max(-1, ...before.get(name).map(visit)) + 1;
    open.delete(name);
    depth.set(name, made);
    return made;
  };
  [...nodes.keys()].forEach(visit);
  return depth;
}

// Places the nodes: in each layer by the mean place of the nodes before them.
export function layout(nodes, edges) {
  const depth = layers(nodes, edges),
    columns = [],
    places = new Map();
  for (const [name, layer] of depth) (columns[layer] ||= []).push(name);
  const tallest = Math.max(...columns.map((column) => column.length));
  columns.forEach((column, layer) => {
    const mean = (name) => {
      const from = edges
        .filter((edge) => edge.to === name && places.has(edge.from))
        .map((edge) => places.get(edge.from).y);
      return from.length ? from.reduce((sum, y) => sum + y, 0) / from.length : 0;
    };
    const ordered = column.map((name) => [name, mean(name)]).sort(([, one], [, other]) => one - other);
    const top = EDGE + ((tallest - column.length) * (HEIGHT + DOWN)) / 2;
    ordered.forEach(([name], row) =>
      places.set(name, { x: EDGE + layer * (WIDTH + ACROSS), y: top + row * (HEIGHT + DOWN) }),
    );
  });
  return {
    places,
    width: 2 * EDGE + columns.length * (WIDTH + ACROSS) - ACROSS,
    height: 2 * EDGE + tallest * (HEIGHT + DOWN) - DOWN,
  };
}

const cut = (text) => (text.length > LETTERS ? `${text.slice(0, LETTERS - 1)}…` : text);

function Edge({ edge, places }) {
  const from = places.get(edge.from),
    to = places.get(edge.to),
    back = to.x <= from.x;
  const x1 = from.x + WIDTH,
    y1 = from.y + HEIGHT / 2,
    x2 = to.x - 7,
    y2 = to.y + HEIGHT / 2,
    bend = back ? 60 : Math.max(30, (x2 - x1) / 2);
  const flows = edge.rate > 0;
  return html`<g class=${`edge ${flows ? "flows" : ""}`}>
    <path d=${`M${x1} ${y1} C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`} />
    <path class="head" d=${`M${x2 + 7} ${y2} l-8 -4.5 v9 z`} />
    ${
      edge.rate !== undefined &&
      edge.rate !== null &&
      html`<text x=${x1 + (x2 - x1) * 0.5} y=${y1 + (y2 - y1) * 0.5 - 6} text-anchor="middle"
        >${short(edge.rate)}/s</text
      >`
    }
  </g>`;
}

function Node({ name, node, at }) {
  const body = html`<rect x=${at.x} y=${at.y} width=${WIDTH} height=${HEIGHT} rx=${node.agent ? 10 : 25} />
    <text class="name" x=${at.x + WIDTH / 2} y=${at.y + (node.note ? 21 : 29)} text-anchor="middle"
      >${cut(node.title)}</text
    >
    ${
      node.note &&
      html`<text class="note" x=${at.x + WIDTH / 2} y=${at.y + 38} text-anchor="middle">${node.note}</text>`
    }
    ${node.title.length > LETTERS && html`<title>${node.title}</title>`}`;
  const kind = node.agent ? `agent ${node.kind}` : "topic";
  return html`<a class=${`node ${kind}`} key=${name} href=${link(node.agent ? "agent" : "topic", { name: node.title })}
    >${body}</a
  >`;
}

// `agents`: {name, topics, to, note, kind, rate(topic), sent(topic)}. `kind` colors it: good, warn or bad.
export function Graph({ agents }) {
  const nodes = new Map(),
    edges = [],
    topic = (name) => {
      const id = `topic ${name}`;
      if (!nodes.has(id)) nodes.set(id, { title: name });
      return id;
    };
  for (const agent of agents) {
    const id = `agent ${agent.name}`;
    nodes.set(id, { title: agent.name, agent: true, note: agent.note, kind: agent.kind });
    for (const name of agent.topics) edges.push({ from: topic(name), to: id, rate: agent.rate(name) });
    for (const name of agent.to) edges.push({ from: id, to: topic(name), rate: agent.sent(name) });
  }
  const { places, width, height } = layout(nodes, edges);
  return html`<section class="card" aria-label="Topics and agents">
    <div class="head">
      <h2>Topics and agents</h2>
      <span class="soft">records and results a second</span>
    </div>
    <div class="scroll graph" tabindex="0" role="group" aria-label="Topics and agents, graph">
      <svg
        style=${{ width: `${width}px`, minWidth: `${LEAST * width}px` }}
        viewBox=${`0 0 ${width} ${height}`}
        role="group"
        aria-label="graph of topics and agents"
      >
        ${edges.map((edge) => html`<${Edge} key=${`${edge.from} ${edge.to}`} edge=${edge} places=${places} />`)}
        ${[...nodes].map(
          ([name, node]) => html`<${Node} key=${name} name=${name} node=${node} at=${places.get(name)} />`,
        )}
      </svg>
    </div>
  </section>`;
}
