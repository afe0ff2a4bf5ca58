// A table in a card. `columns`: {title, value, kind, by, order}. `kind` is number, text or nothing. A column with `by`
// is sorted here, one with `order` by the server: the field `order` of the address has its name, with `-` in front
// for descending.
import { html } from "../core/html.js";
import { refine, route } from "../core/route.js";

const nothing = (value) => value === null || value === undefined || value === "";

function compared(one, other) {
  if (nothing(one) || nothing(other)) return Number(nothing(one)) - Number(nothing(other));
  return typeof one === "number" ? one - other : String(one).localeCompare(String(other), "en", { numeric: true });
}

function sorted(rows, columns, order) {
  const name = order.replace(/^-/, ""),
    column = columns.find((each) => each.by && each.title === name);
  if (!column) return rows;
  const made = [...rows].sort((one, other) => compared(column.by(one), column.by(other)));
  return order.startsWith("-") ? made.reverse() : made;
}

function Head({ column, order, field }) {
  const name = column.order || (column.by && column.title),
    on = name && order.replace(/^-/, "") === name;
  const down = on && order.startsWith("-");
  if (!name)
    return html`<th scope="col" class=${column.kind || ""}>
      ${column.title || html`<span class="hidden">actions</span>`}
    </th>`;
  return html`<th
    scope="col"
    class=${column.kind || ""}
    aria-sort=${on ? (down ? "descending" : "ascending") : "none"}
  >
    <button
      type="button"
      class="sort"
      onClick=${() => refine({ [field]: (on ? down : column.kind !== "number") ? name : `-${name}` })}
    >
      ${column.title}<span class="arrow" aria-hidden="true">${on ? (down ? "↓" : "↑") : "↕"}</span>
    </button>
  </th>`;
}

export function Table({ caption, columns, rows, empty, order, field = "order", name = (row, at) => at, note }) {
  const chosen = order === undefined ? route().fields[field] || "" : order;
  const lines = sorted(rows, columns, chosen);
  return html`<section class="card" aria-label=${caption}>
    <div class="head">
      <h2>${caption}</h2>
      ${note}
    </div>
    ${
      !rows.length
        ? empty
        : html`<div class="scroll" tabindex="0" role="group" aria-label=${`${caption}, table`}>
            <table>
              <thead>
                <tr>
                  ${columns.map((column) => html`<${Head} column=${column} order=${chosen} field=${field} />`)}
                </tr>
              </thead>
              <tbody>
                ${lines.map(
                  (row, at) =>
                    html`<tr key=${name(row, at)}>
                      ${columns.map((column) => {
                        const value = column.value(row);
                        return html`<td class=${column.kind || ""}>
                          ${nothing(value) ? html`<span class="soft">–</span>` : value}
                        </td>`;
                      })}
                    </tr>`,
                )}
              </tbody>
            </table>
          </div>`
    }
  </section>`;
}
