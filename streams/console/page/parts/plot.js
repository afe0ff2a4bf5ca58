// A small plot over the last hour, drawn by uPlot. The caption says in text what the picture shows.
import { Component, html } from "../core/html.js";
import { settings } from "../core/settings.js";
import { short } from "../core/text.js";

const HEIGHT = 118,
  COLORS = ["--series-1", "--series-2", "--series-3", "--series-4", "--series-5", "--series-6"];

function color(element, name) {
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  element.append(probe);
  const made = getComputedStyle(probe).color;
  probe.remove();
  return made;
}

const known = (values) => values.filter((value) => value !== null && value !== undefined);

export class Plot extends Component {
  constructor() {
    super();
    this.keep = (element) => {
      this.element = element;
    };
  }
  draw() {
    const { times, series, text = short } = this.props,
      at = (name) => color(this.element, name);
    const axis = {
      stroke: at("--soft"),
      grid: { stroke: at("--line"), width: 1 },
      ticks: { show: false },
      font: "11px system-ui",
    };
    this.drawn = [
      settings.theme,
      matchMedia("(prefers-color-scheme: dark)").matches,
      series.map((each) => each.label).join(),
    ].join();
    if (this.plot) this.plot.destroy();
    this.plot = new window.uPlot(
      {
        width: this.element.clientWidth,
        height: HEIGHT,
        legend: { show: false },
        padding: [8, 8, 0, 0],
        cursor: { sync: { key: "hour" }, drag: { x: false, y: false }, points: { size: 6 } },
        scales: {
          x: { time: true },
          y: { range: (_, low, high) => [0, Math.max(high * 1.1, this.props.least || 1)] },
        },
        axes: [
          { ...axis, space: 70, size: 22 },
          { ...axis, size: 52, space: 28, values: (_, ticks) => ticks.map(text) },
        ],
        series: [
          {},
          ...series.map((each, index) => ({
            stroke: at(COLORS[index % COLORS.length]),
            width: 1.6,
            points: { show: false },
            spanGaps: false,
            fill: series.length === 1 ? at("--series-fill") : undefined,
          })),
        ],
        hooks: { setCursor: [(plot) => this.setState({ index: plot.cursor.idx })] },
        tzDate: (stamp) =>
          settings.zone === "UTC" ? window.uPlot.tzDate(new Date(stamp * 1e3), "Etc/UTC") : new Date(stamp * 1e3),
      },
      [times, ...series.map((each) => each.values)],
      this.element,
    );
  }
  componentDidMount() {
    this.draw();
    this.sized = new ResizeObserver(() => this.plot.setSize({ width: this.element.clientWidth, height: HEIGHT }));
    this.sized.observe(this.element);
  }
  componentDidUpdate(before) {
    const { times, series } = this.props;
    const wanted = [
      settings.theme,
      matchMedia("(prefers-color-scheme: dark)").matches,
      series.map((each) => each.label).join(),
    ].join();
    if (wanted !== this.drawn) this.draw();
    else if (before.times.at(-1) !== times.at(-1)) this.plot.setData([times, ...series.map((each) => each.values)]);
  }
  componentWillUnmount() {
    this.sized.disconnect();
    this.plot.destroy();
  }
  render({ title, series, unit = "", text = short }, { index }) {
    const shown = (each) => {
      const value = index === null || index === undefined ? each.values.at(-1) : each.values[index];
      return `${text(value) ?? "–"}${unit}`;
    };
    const high = Math.max(0, ...series.flatMap((each) => known(each.values)));
    return html`<figure class="plot">
      <figcaption>
        <h3>${title}</h3>
        <ul class="legend">
          ${series.map(
            (each, at) =>
              html`<li>
                ${
                  each.label &&
                  html`<i class=${`swatch series-${(at % COLORS.length) + 1}`} aria-hidden="true"></i
                    ><span class="soft">${each.label}</span> `
                }
                <strong>${shown(each)}</strong>
              </li>`,
          )}
        </ul>
        <span class="hidden">highest in the last hour ${text(high)}${unit}</span>
      </figcaption>
      <div class="canvas" aria-hidden="true" ref=${this.keep}></div>
    </figure>`;
  }
}
