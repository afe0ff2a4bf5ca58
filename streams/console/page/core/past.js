// The last hour, kept in the page: each answer has what is new.
const HOUR = 3600;
export const past = { agents: {}, errors: [], newest: 0, every: 5 };

function joined(old, more, skip) {
  const from = old.at.findIndex((at) => at > skip),
    start = from < 0 ? old.at.length : from,
    made = {};
  for (const name of Object.keys(more))
    if (Array.isArray(more[name])) made[name] = [...old[name].slice(start), ...more[name]];
  const zeros = (length) => new Array(length).fill(0);
  made.reasons = {};
  for (const name of new Set([...Object.keys(old.reasons), ...Object.keys(more.reasons)]))
    made.reasons[name] = [
      ...(old.reasons[name] || zeros(old.at.length)).slice(start),
      ...(more.reasons[name] || zeros(more.at.length)),
    ];
  made.topics = more.topics;
  made.outputs = more.outputs;
  return made;
}

const EMPTY = {
  at: [],
  read: [],
  fired: [],
  sent: [],
  lag: [],
  groups: [],
  commit: [],
  slowest: [],
  reasons: {},
  topics: {},
  outputs: {},
};

export function keep(answer) {
  let newest = past.newest;
  for (const [agent, columns] of Object.entries(answer.agents)) {
    const last = columns.at.at(-1);
    if (last === undefined || last <= past.newest) continue; // it was kept before
    past.agents[agent] = joined(past.agents[agent] || EMPTY, columns, last - HOUR);
    newest = Math.max(newest, last);
  }
  Object.assign(past, { newest, every: answer.every, errors: answer.errors });
}

// The newest value of each column; null when it is older than a few samples.
export function latest(agent) {
  const columns = past.agents[agent];
  if (!columns || !columns.at.length || columns.at.at(-1) < past.newest - 3 * past.every) return null;
  return {
    read: columns.read.at(-1),
    sent: columns.sent.at(-1),
    fired: columns.fired.at(-1),
    topics: columns.topics,
    outputs: columns.outputs,
  };
}

const add = (one, other) =>
  one === null || one === undefined ? other : other === null || other === undefined ? one : one + other;
const most = (one, other) =>
  one === null || one === undefined ? other : other === null || other === undefined ? one : Math.max(one, other);

// The hour of these agents together: sums, and of the time of commits the longest.
export function together(names) {
  const columns = names.map((name) => past.agents[name]).filter(Boolean);
  const times = [...new Set(columns.flatMap((each) => each.at))].sort((one, other) => one - other);
  const at = new Map(times.map((time, index) => [time, index]));
  const merged = (of, how) => {
    const made = new Array(times.length).fill(null);
    for (const each of columns)
      (of(each) || []).forEach((value, index) => {
        const to = at.get(each.at[index]);
        made[to] = how(made[to], value);
      });
    return made;
  };
  const made = { at: times, reasons: {} };
  for (const name of ["read", "fired", "sent", "lag", "groups"]) made[name] = merged((each) => each[name], add);
  for (const name of ["commit", "slowest"]) made[name] = merged((each) => each[name], most);
  for (const name of new Set(columns.flatMap((each) => Object.keys(each.reasons))))
    made.reasons[name] = merged((each) => each.reasons[name], add);
  return made;
}
