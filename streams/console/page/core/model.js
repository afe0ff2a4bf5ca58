// What the reports of workers and the store say together.

const place = (agent, topic, partition) => [agent, topic, partition].join("/");

const SILENT = 5; // seconds; a worker reports about once a second

// A worker that has stopped does not say that deadlines pass meanwhile.
const later = (row, silence) =>
  silence > SILENT && row.next_deadline !== null ? { ...row, next_deadline: row.next_deadline - silence } : row;

// Each partition once: the report of its worker, and what the store alone knows.
export function partitions(overview, stored) {
  const rows = new Map(stored.map((row) => [place(row.agent, row.topic, row.partition), row]));
  for (const worker of overview.workers)
    for (const row of worker.partitions.map((each) => later(each, worker.turned))) {
      const at = place(worker.agent, row.topic, row.number);
      rows.set(at, { ...rows.get(at), ...row, agent: worker.agent, partition: row.number, worker: worker.worker });
    }
  return [...rows.values()];
}

// Why a partition does not go on; nothing when it does.
export function waiting(row) {
  if (row.detail) return row.detail;
  if (row.note) return row.note;
  if (row.state === "claiming") return "its worker claims it: another process may still own it";
  if (row.state === "restoring") return "its worker reads its state from the store";
  if (row.state === "paused")
    return row.unsent
      ? `paused: ${row.unsent} rows of its outbox wait for the broker`
      : "paused: its handlers or its outbox are full";
  if (!row.state) return "no worker of this run reads it";
  return null;
}

// How many letters are dead; null where it is not known.
export const dead = (overview) =>
  overview.dead && Object.values(overview.dead).reduce((sum, each) => sum + each, 0);

// Why dead letters are no problem, as a part of a sentence; empty where they are one.
export const intended = { letters: "" };

const total = (rows, name) => rows.reduce((sum, row) => sum + Math.max(0, row[name] || 0), 0);
const late = (row) => row.next_deadline !== null && row.next_deadline !== undefined && row.next_deadline < -1;

export function totals(rows) {
  return {
    lag: total(rows, "lag"),
    groups: total(rows, "groups"),
    unsent: total(rows, "unsent"),
    dead: total(rows, "dead"),
    halted: rows.filter((row) => row.state === "halted"),
    late: rows.filter(late),
    waits: rows.filter((row) => row.state && row.state !== "running"),
  };
}
