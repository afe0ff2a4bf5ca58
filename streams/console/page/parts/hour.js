// The plots of the last hour of some agents.
import { html } from "../core/html.js";
import { past, together } from "../core/past.js";
import { milliseconds } from "../core/text.js";
import { Empty } from "./controls.js";
import { Plot } from "./plot.js";

const MOST = 6; // reasons of one plot

export function Hour({ agents }) {
  const all = together(agents),
    times = all.at;
  const reasons = Object.entries(all.reasons)
    .slice(0, MOST)
    .map(([label, values]) => ({ label, values }));
  const none = times.map(() => 0);
  return html`<section class="card" aria-label="Last hour">
    <div class="head">
      <h2>Last hour</h2>
      <span class="soft">every ${past.every} s, since the start of this run</span>
    </div>
    ${
      times.length < 2
        ? html`<${Empty} title="The plots begin a few seconds after the start."
            >This run keeps its last hour in memory. Prometheus keeps more: <code>/metrics</code>.<//
          >`
        : html`<div class="plots">
            <${Plot} title="Records in" unit="/s" times=${times} series=${[{ values: all.read }]} />
            <${Plot} title="Results out" unit="/s" times=${times} series=${[{ values: all.sent }]} />
            <${Plot} title="Lag" unit=" records" times=${times} series=${[{ values: all.lag }]} />
            <${Plot} title="Open groups" times=${times} series=${[{ values: all.groups }]} />
            <${Plot}
              title="Fires by reason"
              unit="/s"
              times=${times}
              series=${reasons.length ? reasons : [{ label: "none yet", values: none }]}
            />
            <${Plot}
              title="Time of a commit"
              times=${times}
              least=${0.001}
              text=${milliseconds}
              series=${[
                { label: "median", values: all.commit },
                { label: "99 %", values: all.slowest },
              ]}
            />
          </div>`
    }
  </section>`;
}
