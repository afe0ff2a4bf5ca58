"use strict";
// All text of the server is set with textContent: a key or a payload is never markup.

const $ = (id) => document.getElementById(id);
let token = sessionStorage.getItem("token") || "";
let secret = "";
let overview = null;
let tab = "overview";
let round = 0; // questions of an earlier view are not shown
let timer = 0;
let pace = 2; // seconds until the next reading; the server may want more
const fields = { agent: "", search: "", order: "age", first: 0, state: "", key: "", destination: "" };

// -- the server

async function call(path, options) {
  const headers = { ...(options && options.headers) };
  if (token) headers.Authorization = "Bearer " + token;
  let answer;
  try {
    answer = await fetch(path, { ...options, headers, cache: "no-store", credentials: "omit" });
  } catch {
    throw new Error("the worker does not answer");
  }
  if (answer.status === 401) {
    if (!$("login").open) $("login").showModal();
    throw new Error("the token is missing or wrong");
  }
  const found = await answer.json().catch(() => ({ error: answer.statusText }));
  if (!answer.ok) throw new Error(found.error || answer.statusText);
  return found;
}

async function ask(name, query) {
  const found = await call("/console/" + name + "?" + new URLSearchParams(query || {}));
  pace = Math.max(pace, found.again || 0);
  return found;
}

const change = (name, body) =>
  call("/console/" + name, {
    method: "POST",
    headers: { "Content-Type": "application/json", "Sluicegate-Change": secret },
    body: JSON.stringify(body),
  });

// -- elements

// Control characters but tab and line feed, and characters that hide or reorder other text. As in streams/wording.py.
const UNPRINTABLE = new RegExp("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\xad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5" +
  "\\u180b-\\u180f\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0" +
  "\\ufff0-\\ufffb\\ud800-\\udfff\\u{1bca0}-\\u{1bca3}\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}]", "gu");
const units = (text) => text.split("").map((unit) => "\\u" + unit.charCodeAt(0).toString(16).padStart(4, "0")).join("");
const printable = (text) => String(text).replace(UNPRINTABLE, units);

function make(name, text, attributes) {
  const made = document.createElement(name);
  if (text !== undefined && text !== null) made.textContent = printable(text);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  return made;
}

function button(text, label, act) {
  const made = make("button", text, { type: "button", "aria-label": label, "data-id": label });
  made.addEventListener("click", act);
  return made;
}

// `columns`: [title, function of a row, kind]; kind is number, text or nothing.
function table(caption, columns, rows, empty) {
  const box = make("section", null, { "aria-label": caption });
  box.append(make("h2", caption));
  if (!rows.length) {
    box.append(make("p", empty || "Nothing.", { class: "soft" }));
    return box;
  }
  const made = make("table"), head = make("tr"), body = make("tbody");
  for (const [title, , kind] of columns) head.append(make("th", title, { scope: "col", class: kind || "" }));
  for (const row of rows) {
    const line = make("tr");
    for (const [, value, kind] of columns) {
      const cell = make("td", null, { class: kind || "" }), found = value(row);
      if (found instanceof Node) cell.append(found);
      else cell.textContent = found === null || found === undefined || found === "" ? "–" : printable(found);
      line.append(cell);
    }
    body.append(line);
  }
  const top = make("thead");
  top.append(head);
  made.append(top, body);
  const scroll = make("div", null, { class: "scroll" });
  scroll.append(made);
  box.append(scroll);
  return box;
}

const buttons = (...all) => { const box = make("span"); all.forEach((each) => box.append(each, " ")); return box; };
const count = (value) => (value === null || value === undefined || value < 0 ? null : value.toLocaleString("en"));

function span(seconds) {
  if (seconds === null || seconds === undefined) return null;
  const all = Math.round(Math.abs(seconds)), past = seconds < 0 && all ? " overdue" : "";
  if (all < 120) return all + " s" + past;
  if (all < 7200) return Math.floor(all / 60) + " m " + (all % 60) + " s" + past;
  if (all < 172800) return Math.floor(all / 3600) + " h " + Math.floor((all % 3600) / 60) + " m" + past;
  return Math.floor(all / 86400) + " d " + Math.floor((all % 86400) / 3600) + " h" + past;
}

const day = (seconds) => new Date(seconds * 1000).toISOString().replace(/\.\d+Z/, "Z");
const read = (age) => make("p", "Read from the store " + (age < 1 ? "now" : span(age) + " ago") + ".", { class: "soft", id: "age" });

function choice(label, name, options) {
  const box = make("label", label + " "), made = make("select", null, { id: "field-" + name });
  for (const [value, text] of options) {
    const option = make("option", text, { value });
    option.selected = value === fields[name];
    made.append(option);
  }
  made.addEventListener("change", () => { fields[name] = made.value; fields.first = 0; show(); });
  box.append(made);
  return box;
}

let typing = 0;
function entry(label, name) {
  const box = make("label", label + " "), made = make("input", null, { id: "field-" + name, type: "search" });
  made.value = fields[name];
  made.addEventListener("input", () => {
    fields[name] = made.value;
    fields.first = 0;
    clearTimeout(typing);
    typing = setTimeout(show, 200);
  });
  box.append(made);
  return box;
}

function bar(...all) { const box = make("div", null, { class: "bar" }); box.append(...all); return box; }

function pages(found) {
  const box = bar(), last = Math.min(found.first + found.page, found.found);
  const text = found.found ? count(found.first + 1) + " to " + count(last) + " of " + count(found.found) : "none";
  const turn = (step) => () => { fields.first = Math.max(0, found.first + step); show(); };
  const before = button("Previous", "previous page", turn(-found.page)), next = button("Next", "next page", turn(found.page));
  before.disabled = !found.first;
  next.disabled = last >= found.found;
  box.append(before, make("span", text, { id: "pages" }), next);
  return box;
}

// -- views

const agentChoice = (agents, all) => {
  if (!all && !agents.some((each) => each.name === fields.agent)) fields.agent = agents.length ? agents[0].name : "";
  return choice("Agent", "agent", [...(all ? [["", "all"]] : []), ...agents.map((each) => [each.name, each.name])]);
};

const views = {
  overview: ["Overview", async () => {
    const stored = await ask("partitions").catch((error) => ({ partitions: [], failed: error.message }));
    const own = new Map(), at = (row) => [row.agent, row.topic, row.partition].join("/");
    for (const worker of overview.workers)
      for (const row of worker.partitions)
        own.set([worker.agent, row.topic, row.number].join("/"), { ...row, agent: worker.agent, partition: row.number });
    const rows = new Map(stored.partitions.map((row) => [at(row), row]));
    for (const [place, row] of own) rows.set(place, { ...rows.get(place), ...row });
    const lag = (row) => (row.state ? row.lag : null);
    return [
      table("Agents", [
        ["agent", (row) => row.name], ["reads", (row) => row.topics.join(", ")], ["writes", (row) => row.to.join(", ")],
        ["scope", (row) => row.scope], ["delivery", (row) => row.delivery],
        ["open groups", (row) => count([...own.values()].filter((each) => each.agent === row.name)
          .reduce((sum, each) => sum + each.groups, 0)), "number"],
      ], overview.agents),
      table("Workers of this run", [
        ["agent", (row) => row.agent], ["worker", (row) => row.worker, "number"], ["pid", (row) => row.pid, "number"],
        ["state", (row) => make("span", row.ready ? "ready" : "not ready", { class: row.ready ? "good" : "bad" })],
        ["reasons", (row) => row.reasons.join("; "), "text"], ["runs for", (row) => span(row.seconds), "number"],
      ], overview.workers),
      table("Partitions", [
        ["agent", (row) => row.agent], ["topic", (row) => row.topic], ["partition", (row) => row.partition, "number"],
        ["owner", (row) => row.owner], ["state", (row) => row.state || "another run"],
        ["offset", (row) => count(row.offset), "number"], ["lag", (row) => count(lag(row)), "number"],
        ["watermark", (row) => row.watermark], ["behind", (row) => span(row.watermark_lag), "number"],
        ["open groups", (row) => count(row.groups), "number"], ["oldest", (row) => span(row.oldest), "number"],
        ["next deadline", (row) => span(row.next_deadline), "number"], ["unsent", (row) => count(row.unsent), "number"],
        ["note", (row) => row.detail || row.note, "text"],
      ], [...rows.values()]),
      stored.failed ? make("p", stored.failed, { class: "soft" }) : read(stored.age),
    ];
  }],
  groups: ["Groups", async () => {
    const agents = overview.agents.filter((each) => each.groups);
    const head = bar(agentChoice(agents), entry("Search", "search"),
      choice("Order", "order", [["age", "oldest first"], ["due", "next deadline first"], ["count", "largest first"], ["key", "by key"]]));
    if (!agents.length) return [make("p", "No agent has groups.", { class: "soft" })];
    const found = await ask("groups", { agent: fields.agent, search: fields.search, order: fields.order, first: fields.first });
    const columns = [
      ["key", (row) => row.text, "text"], ["partition", (row) => row.place], ["window", (row) => row.window],
      ["records", (row) => count(row.count), "number"], ["age", (row) => span(row.age), "number"],
      ["fires in", (row) => span(row.fires_in), "number"], ["bytes", (row) => count(row.bytes), "number"],
      ["owner", (row) => row.owner],
      ["", (row) => buttons(
        button("Why", "why " + row.text, () => why(row)),
        button("Fire", "fire " + row.text, () => confirmed("fire", "Fire", "Fire " + row.text + " now?", named(row))),
        button("Drop", "drop " + row.text, () => confirmed("drop", "Drop",
          "Forget " + row.count + " records of " + row.text + "? Nothing of them is ever sent.", named(row))))],
    ];
    return [head, table("Open groups", columns.filter(([title]) => title !== "window" || found.groups.some((row) => row.window)),
      found.groups, "No group is open."), pages(found), read(found.age)];
  }],
  timeouts: ["Timeouts", async () => {
    const found = await ask("timeouts", { destination: fields.destination, key: fields.key });
    return [bar(entry("Topic", "destination"), entry("Key", "key")), table("Scheduled timeouts", [
      ["id", (row) => row.id], ["due", (row) => row.due_at], ["topic", (row) => row.destination],
      ["key", (row) => row.key, "text"], ["owner", (row) => row.owner],
    ], found.timeouts, "No timeout is scheduled."),
    make("p", found.timeouts.length + " shown of " + count(found.count) + ", earliest first.", { class: "soft" })];
  }],
  outbox: ["Outbox", async () => {
    const found = await ask("outbox", { state: fields.state });
    const lanes = Object.entries(found.lanes).sort(([a], [b]) => Number(a) - Number(b));
    return [
      table("States", [["state", (row) => row[0]], ["rows", (row) => count(row[1]), "number"]], Object.entries(found.counts)),
      table("Lanes with pending rows", [
        ["lane", (row) => row[0], "number"], ["pending", (row) => count(row[1].pending), "number"],
        ["oldest", (row) => row[1].oldest], ["most attempts", (row) => row[1].attempts, "number"],
      ], lanes, "No row is pending in any of the " + found.lane_count + " lanes."),
      bar(choice("State", "state", [["", "all"], ["pending", "pending"], ["dispatched", "dispatched"], ["dead", "dead"]])),
      table("Rows", [
        ["id", (row) => row.id, "text"], ["state", (row) => row.state], ["topic", (row) => row.topic],
        ["key", (row) => row.key, "text"], ["lane", (row) => row.lane, "number"],
        ["attempts", (row) => row.attempts, "number"], ["created", (row) => row.created_at],
        ["reason", (row) => row.reason, "text"],
        ["", (row) => buttons(...(row.state === "dead" ? [button("Retry", "retry " + row.id, () =>
          confirmed("outbox/retry", "Retry", "Send row " + row.id + " again?", { ids: [row.id] }))] : []),
        ...(row.state === "dispatched" ? [] : [button("Drop", "drop " + row.id, () =>
          confirmed("outbox/drop", "Drop", "Delete row " + row.id + " unsent?", { ids: [row.id] }))]))],
      ], found.rows, "No row."),
    ];
  }],
  dead: ["Dead letters", async () => {
    const found = await ask("dead", { agent: fields.agent, first: fields.first });
    const notes = [found.missing && "Dead letters cannot be read: " + found.missing,
      found.older && count(found.older) + " older records were not looked at."].filter(Boolean);
    return [bar(agentChoice(overview.agents, true)), table("Dead letters and dead rows", [
      ["id", (row) => row.id, "text"], ["kind", (row) => row.kind], ["agent", (row) => row.agent],
      ["stage", (row) => row.stage], ["reason", (row) => row.reason], ["attempts", (row) => row.attempts, "number"],
      ["age", (row) => span(row.age), "number"], ["error", (row) => row.error, "text"],
      ["", (row) => buttons(
        button("Payload", "payload " + row.id, () => payload(row)),
        ...(row.kind === "group" ? [] : [button("Retry", "retry " + row.id, () =>
          confirmed("retry", "Retry", "Send " + row.id + " again?", { agent: row.agent, ids: [row.id] }))]))],
    ], found.dead, "Nothing is dead."), pages(found), ...notes.map((text) => make("p", text, { class: "soft" })), read(found.age)];
  }],
  progress: ["Deployments", async () => {
    const found = await ask("progress"), all = (name) => found.agents.flatMap((row) => row[name].map((each) => ({ agent: row.agent, ...each })));
    return [
      table("Versions of the rules", [
        ["agent", (row) => row.agent], ["version", (row) => row.number, "number"], ["rule", (row) => row.digest],
        ["open groups", (row) => row.policy], ["deployed", (row) => day(row.at)], ["by", (row) => row.who],
        ["why", (row) => row.why, "text"],
      ], all("versions"), "Nothing was deployed."),
      table("Partitions with groups of an earlier version", [
        ["agent", (row) => row.agent], ["topic", (row) => row.topic], ["partition", (row) => row.partition, "number"],
        ["runs version", (row) => row.version, "number"],
        ["earlier", (row) => row.earlier.map((each) => each.groups + " groups of version " + each.version).join(", ")],
        ["records to read again", (row) => count(row.again), "number"],
      ], found.switching, "No partition has any."),
      table("Replays", [
        ["agent", (row) => row.agent], ["replay", (row) => row.number, "number"], ["state", (row) => row.state],
        ["into", (row) => row.into], ["began", (row) => day(row.at)],
        ["offsets done", (row) => (row.done === null ? null : count(row.done) + " of " + count(row.records)), "number"],
        ["corrections", (row) => count(row.corrections), "number"], ["by", (row) => row.who], ["why", (row) => row.why, "text"],
      ], all("replays"), "No results were corrected."),
      read(found.age),
    ];
  }],
  audit: ["Audit", async () => {
    const found = await ask("audit", { first: fields.first });
    return [table("Changes by operators within 30 days", [
      ["at", (row) => row.at], ["who", (row) => row.who, "text"], ["what", (row) => row.what], ["agent", (row) => row.agent],
      ["topic", (row) => row.topic], ["partition", (row) => row.partition, "number"], ["key", (row) => row.key, "text"],
      ["why", (row) => row.why, "text"],
    ], found.changes, "Nothing was changed."), pages(found), read(found.age)];
  }],
};

const named = (row) => ({ agent: fields.agent, key: row.name, place: row.place, ...(row.window ? { window: row.window } : {}) });

// -- dialogs

function detail(title, ...parts) {
  $("detail-title").textContent = printable(title);
  $("detail-body").replaceChildren(...parts);
  $("detail").showModal();
}

async function why(row) {
  try {
    const found = await ask("why", named(row)), parts = [];
    for (const each of found.groups)
      parts.push(make("p", each.why), make("pre", JSON.stringify(each.values, null, 2)));
    detail(row.text, ...(parts.length ? parts : [make("p", "It ended meanwhile.")]));
  } catch (error) { failed(error); }
}

async function payload(row) {
  try {
    const found = await ask("payload", { agent: row.agent, id: row.id });
    detail(row.id, make("h3", "Key"), make("pre", found.key), make("h3", "Value"), make("pre", found.value),
      table("Headers", [["header", (each) => each.name, "text"], ["value", (each) => each.value, "text"]], found.headers));
  } catch (error) { failed(error); }
}

let pending = null;
function confirmed(name, verb, text, body) {
  pending = { name, body };
  $("change-title").textContent = printable(verb);
  $("change-text").textContent = printable(text);
  $("confirm").textContent = verb;
  $("why").value = "";
  $("by").value = localStorage.getItem("by") || "";
  $("change-ask").hidden = $("change-error").hidden = true;
  $("change").showModal();
  $("why").focus();
}

$("change-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const { name, body } = pending;
  $("confirm").disabled = true;
  try {
    localStorage.setItem("by", $("by").value);
    const done = await change(name, { ...body, why: $("why").value, by: $("by").value });
    if (done.ask) {
      $("change-ask").textContent = done.ask + " Press " + $("confirm").textContent + " again to do it.";
      $("change-ask").hidden = false;
      body.yes = true;
    } else if (done.left_out && done.left_out.length) {
      throw new Error(done.left_out.map((each) => each.id + " was left out: " + each.why).join("; "));
    } else if (done.refused && done.refused.length) {
      throw new Error(done.refused.join(", ") + " was retried before: the audit says when");
    } else {
      $("change").close();
      show();
    }
  } catch (error) {
    $("change-error").textContent = printable(error.message);
    $("change-error").hidden = false;
  } finally {
    $("confirm").disabled = false;
  }
});
$("cancel").addEventListener("click", () => $("change").close());
$("close").addEventListener("click", () => $("detail").close());
$("login-form").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("token").value;
  sessionStorage.setItem("token", token);
  $("login").close();
  start();
});

// -- live

function failed(error) {
  $("error").textContent = printable(error.message);
  $("error").hidden = false;
}

// A row or a field that has the focus has it again after a new reading.
function focused() {
  const there = document.activeElement;
  if (!there || !$("view").contains(there)) return () => {};
  const { id } = there, name = there.dataset.id, from = there.selectionStart, to = there.selectionEnd;
  return () => {
    const again = id ? $(id) : [...$("view").querySelectorAll("button")].find((each) => each.dataset.id === name);
    if (!again) return;
    again.focus({ preventScroll: true });
    if (id && again.setSelectionRange && from !== null && from !== undefined) again.setSelectionRange(from, to);
  };
}

async function show() {
  const mine = ++round;
  clearTimeout(timer);
  pace = 2;
  try {
    if (!secret) secret = (await ask("session")).secret;
    overview = await ask("overview");
    const parts = await views[tab][1]();
    if (mine !== round) return;
    const back = focused();
    $("view").replaceChildren(...parts);
    back();
    $("error").hidden = true;
  } catch (error) {
    if (mine !== round) return;
    secret = "";
    failed(error);
    pace = 5;
  }
  if (overview) {
    $("app").textContent = overview.app;
    $("state").textContent = overview.phase + ", " + (overview.ready ? "ready" : "not ready");
    $("state").className = overview.ready ? "good" : "bad";
    document.title = overview.app + " - Sluicegate";
  }
  if (!document.hidden) timer = setTimeout(show, pace * 1000);
}

function select(name, focus) {
  tab = name;
  fields.first = 0;
  for (const each of $("tabs").children) {
    const chosen = each.dataset.tab === name;
    each.setAttribute("aria-selected", chosen);
    each.tabIndex = chosen ? 0 : -1;
    if (chosen && focus) each.focus();
  }
  $("view").setAttribute("aria-labelledby", "tab-" + name);
  history.replaceState(null, "", "#" + name);
  show();
}

function start() {
  for (const [name, [title]] of Object.entries(views)) {
    if ($("tab-" + name)) continue;
    const made = make("button", title, { type: "button", role: "tab", id: "tab-" + name, "data-tab": name, "aria-controls": "view" });
    made.addEventListener("click", () => select(name));
    $("tabs").append(made);
  }
  select(views[location.hash.slice(1)] ? location.hash.slice(1) : tab);
}

$("tabs").addEventListener("keydown", (event) => {
  const names = Object.keys(views), at = names.indexOf(tab), last = names.length - 1;
  const to = { ArrowRight: at === last ? 0 : at + 1, ArrowLeft: at ? at - 1 : last, Home: 0, End: last }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  select(names[to], true);
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || /INPUT|SELECT|TEXTAREA/.test(event.target.tagName)) return;
  const field = $("view").querySelector("input[type=search]");
  if (field) { event.preventDefault(); field.focus(); }
});
document.addEventListener("visibilitychange", () => { if (!document.hidden) show(); });
start();
