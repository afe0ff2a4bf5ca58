"""Guards of the stores: compare-and-set, leases, idempotency keys. SQLite and memory first; servers where the guard's place is theirs."""

from tests.mutation.guard import NEVER, Guard

C = "tests/contracts/"
FENCING = (f"{C}test_fencing.py",)
KILLED = (f"{C}test_killed_inside.py::test_a_transaction_of_a_process_that_lives_is_ended_only_when_its_time_is_over",)
MEMORY, SQLITE, REDIS = "memory", "sqlite", "redis and not cluster"
BUFFER = (f"{C}buffer/test_insert.py", f"{C}buffer/test_leases.py", f"{C}buffer/test_removals.py", f"{C}buffer/test_firing.py")
TIMEOUTS = tuple(f"{C}timeouts/test_{name}.py" for name in ("leases", "emission", "scheduling", "commits"))
OUTBOX = (f"{C}outbox/test_claims.py", f"{C}outbox/test_outcomes.py", f"{C}outbox/test_adding.py")
UPDATE = "\nwhere partition_key = %s and token = %s and version = %s\"\"\"\n\n#"
REDIS_HELD = "if held[1] ~= ARGV[1] or held[2] ~= ARGV[2] then return {'fenced'} end\nlocal kinds"

GUARDS = (
    Guard(
        "memory: only the last claim commits", "connectors/memory/state.py",
        "return held.token == claim.token and held.version == claim.version", "return held.version == claim.version", FENCING, MEMORY,
    ),
    Guard(
        "memory: only the last version commits", "connectors/memory/state.py",
        "return held.token == claim.token and held.version == claim.version", "return held.token == claim.token", FENCING, MEMORY,
    ),
    Guard(
        "memory: taking a mark back fences what read it", "connectors/memory/state.py", "trying=left, token=\"\")",
        "trying=left)", (f"{C}test_crash_marks.py",), MEMORY,
    ),
    Guard(
        "SQLite: only the last claim commits", "connectors/sql/statements.py", UPDATE,
        UPDATE.replace("and token = %s", "and %s <> '~'"), FENCING, SQLITE,
    ),
    Guard(
        "SQLite: only the last version commits", "connectors/sql/statements.py", UPDATE,
        UPDATE.replace("and version = %s", "and %s >= 0"), FENCING, SQLITE,
    ),
    Guard(
        "SQLite: the offset is part of the commit", "connectors/sql/statements.py", "set version = %s, next_offset = %s,",
        "set version = %s, next_offset = coalesce(next_offset, %s),", (*FENCING, f"{C}test_all_or_nothing.py"), SQLITE,
    ),
    Guard(
        "SQLite: work is not called without the claim", "connectors/sql/statements.py",
        'HELD = "select 1 from sluicegate_claim where partition_key = %s and token = %s and version = %s"',
        'HELD = "select 1 from sluicegate_claim where partition_key = %s and %s is not null and %s is not null"',
        (f"{C}test_sessions.py",), SQLITE,
    ),
    Guard(
        "SQLite: taking a mark back fences what read it", "connectors/sql/statements.py", "set trying = %s, token = '' where",
        "set trying = %s where", (f"{C}test_crash_marks.py",), SQLITE,
    ),
    Guard(
        "SQLite: a commit of which a part fails leaves nothing", "connectors/sql/statements.py", 'ROLLBACK = "rollback"',
        'ROLLBACK = "commit"', (f"{C}test_all_or_nothing.py", *FENCING), SQLITE,
    ),
    Guard(
        "PostgreSQL, MariaDB: only the last claim commits", "connectors/sql/statements.py", UPDATE,
        UPDATE.replace("and token = %s", "and %s <> '~'"), FENCING, "postgresql",
    ),
    Guard(
        "PostgreSQL, MariaDB: only the last version commits", "connectors/sql/statements.py", UPDATE,
        UPDATE.replace("and version = %s", "and %s >= 0"), FENCING, "postgresql",
    ),
    Guard(
        "Redis: only the last claim commits", "connectors/redis/scripts.py", REDIS_HELD,
        REDIS_HELD.replace("held[1] ~= ARGV[1] or ", ""), FENCING, REDIS,
    ),
    Guard(
        "Redis: only the last version commits", "connectors/redis/scripts.py", REDIS_HELD,
        REDIS_HELD.replace(" or held[2] ~= ARGV[2]", ""), FENCING, REDIS,
    ),
    Guard(
        "MongoDB: only the last claim commits", "connectors/mongodb/state.py",
        '"token": claim.token, "version": claim.version}\n\n\ndef _insert',
        '"version": claim.version}\n\n\ndef _insert', FENCING, "mongodb",
    ),
    Guard(
        "MongoDB: only the last version commits", "connectors/mongodb/state.py",
        '"token": claim.token, "version": claim.version}\n\n\ndef _insert',
        '"token": claim.token}\n\n\ndef _insert', FENCING, "mongodb",
    ),
    Guard(
        "MongoDB: the transaction of a process that lives has its time", "connectors/mongodb/left_open.py",
        "return _mark_of(found) not in alive or", "return True or", KILLED,
    ),
    Guard(
        "MongoDB: the transaction of a process that stands still is ended", "connectors/mongodb/left_open.py",
        "return _mark_of(found) not in alive or", "return _mark_of(found) not in alive and", KILLED,
    ),
    Guard(
        "numbers of rows grow", "connectors/commits.py",
        "        if row.number <= last:", f"        {NEVER}", (f"{C}test_outbox.py", f"{C}test_all_or_nothing.py"), MEMORY,
    ),
    Guard(
        "no entry is larger than stores take", "connectors/commits.py",
        "        if len(entry) > MAX_ENTRY:", f"        {NEVER}", (f"{C}test_changelog.py",), MEMORY,
    ),
    Guard(
        "entries are not dropped beyond the end", "connectors/commits.py", "    if changes.keep_from is not None and changes.keep_from >",
        "    if False and changes.keep_from >", (f"{C}test_changelog.py",), MEMORY,
    ),
    Guard(
        "memory: the watermark is compared", "connectors/memory/buffer.py",
        "            if held.watermarks.get(place, 0) != progress.expected:", f"            {NEVER}", BUFFER, MEMORY,
    ),
    Guard(
        "memory: a key is stored once", "connectors/memory/buffer.py", "            if not held.knows(entry.idempotency_key, now):",
        "            if True:", BUFFER, MEMORY,
    ),
    Guard(
        "memory: only leased rows are removed", "connectors/memory/buffer.py",
        "if int(id) in held.rows and int(id) in ours]", "if int(id) in held.rows]", BUFFER, MEMORY,
    ),
    Guard(
        "memory: all rows of a snapshot, or nothing", "connectors/memory/buffer.py",
        "                if len(rows) < len(ids):", f"                {NEVER}", BUFFER, MEMORY,
    ),
    Guard(
        "memory: a leased row is nobody else's", "connectors/memory/buffer.py", "if row.free(now)][:limit]", "][:limit]", BUFFER, MEMORY,
    ),
    Guard(
        "memory: a batch is completed under its lease", "connectors/memory/buffer.py",
        "if found and found.token == batch.token else", "if found else", BUFFER, MEMORY,
    ),
    Guard(
        "SQL: only leased rows are removed", "connectors/sql/buffer.py",
        "buffer_rows.drop(at, ours, _ROW.number.in_(page))", "buffer_rows.drop(at, _ROW.number.in_(page))", BUFFER, SQLITE,
    ),
    Guard(
        "SQL: all rows of a snapshot, or nothing", "connectors/sql/buffer.py",
        "                if dropped < len(snapshot.ids):", f"                {NEVER}", BUFFER, SQLITE,
    ),
    Guard(
        "SQL: a batch is completed under its lease", "connectors/buffers.py",
        "batch.id in tokens and tokens[batch.id] == batch.token", "batch.id in tokens", BUFFER, SQLITE,
    ),
    Guard(
        "memory: a timeout is its owner's", "connectors/memory/timeouts.py",
        "row.locked_by == owner and row.locked_until > self._now()", "row.locked_until > self._now()", TIMEOUTS, MEMORY,
    ),
    Guard(
        "memory: a lease that is over is nobody's", "connectors/memory/timeouts.py",
        "row.locked_by == owner and row.locked_until > self._now()", "row.locked_by == owner", TIMEOUTS, MEMORY,
    ),
    Guard(
        "memory: a timeout is sent once", "connectors/memory/timeouts.py", "            self._drop([timeout.id for timeout in sent])\n",
        "", TIMEOUTS, MEMORY,
    ),
    Guard(
        "memory: a scheduled timeout stays as it is", "connectors/memory/timeouts.py",
        "[timeout for timeout in timeouts if timeout.id not in self._rows]", "list(timeouts)", TIMEOUTS, MEMORY,
    ),
    Guard(
        "SQL: a timeout is its owner's", "connectors/sql/timeouts.py",
        "            if owner is None:\n                connection.execute(one)",
        "            if True:\n                connection.execute(one)", TIMEOUTS, SQLITE,
    ),
    Guard(
        "memory: an id enters the outbox once", "connectors/memory/outbox.py",
        "                if message.id not in self._rows:", "                if True:", OUTBOX, MEMORY,
    ),
    Guard(
        "memory: a lane's marks compare its token", "connectors/memory/outbox.py",
        "if batch.lane != ANY_LANE and self._lanes[batch.lane].token != batch.token:",
        NEVER, OUTBOX, MEMORY,
    ),
    Guard(
        "memory: a leased lane is nobody else's", "connectors/memory/outbox.py",
        '            if held.token not in ("", token) and held.expires_at > now:', f"            {NEVER}", OUTBOX, MEMORY,
    ),
    Guard(
        "memory: a mark names the number that was sent", "connectors/memory/outbox.py",
        "return row.number == each.number if batch.lane != ANY_LANE else row.holder == batch.token", "return True", OUTBOX, MEMORY,
    ),
    Guard(
        "memory: a failure that is marked twice counts once", "connectors/memory/outbox.py",
        'return batch.lane != ANY_LANE and outcome.kind == "failed" and row.attempts != each.attempts', "return False", OUTBOX, MEMORY,
    ),
    Guard(
        "SQL: a lane's marks compare its token", "connectors/sql/outbox_lanes.py",
        "held is None or held.token != token:", "held is None:", OUTBOX, SQLITE,
    ),
)  # fmt: skip
