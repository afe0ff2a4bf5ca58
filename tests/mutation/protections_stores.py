"""Protections of the stores: fences and leases. A part of the table in `protections.py`."""

from tests.mutation.twin.edits import Edit

PROTECTIONS: dict[str, tuple[Edit, ...]] = {
    "fence": (
        Edit(
            "connectors/memory/state.py",
            "        if row is None or not _holds(row.claim, claim):",
            "        if row is None:",
        ),
        Edit(
            "connectors/memory/outbox.py",
            "if batch.lane != ANY_LANE and self._lanes[batch.lane - self._space.base].token != batch.token:",
            "if False:",
        ),
        Edit(
            "connectors/sql/statements.py",
            'where partition_key = %s and token = %s and version = %s"""',
            'where partition_key = %s and %s <> \'~\' and %s >= 0"""',
        ),
        Edit(
            "connectors/sql/statements.py",
            'HELD = "select 1 from sluicegate_claim where partition_key = %s and token = %s and version = %s"',
            "HELD = \"select 1 from sluicegate_claim where partition_key = %s and %s <> '~' and %s >= 0\"",
        ),
        Edit(
            "connectors/sql/sqlite.py",
            'executemany(f"{insert} values (?, ?, ?)"',
            'executemany(f"{insert} values (?, ?, ?)".replace("insert into", "insert or replace into")',
        ),
        Edit(
            "connectors/sql/postgresql.py",
            'insert += " select %s, * from unnest(%b::bigint[], %b::bytea[])"',
            'column = insert.split(", ")[-1].removesuffix(")")\n'
            '        insert += f" select %s, * from unnest(%b::bigint[], %b::bytea[])'
            ' on conflict (partition_key, number) do update set {column} = excluded.{column}"',
        ),
        Edit(
            "connectors/sql/mysql.py",
            'db.run(f"{insert} values {values}")',
            'db.run(f"{insert} values {values}".replace("insert into", "replace into"))',
        ),
        Edit("connectors/sql/leased/outbox_lanes.py", "if hold is None or hold.token != token:", "if hold is None:"),
        Edit(
            "connectors/redis/scripts.py",
            "if held[1] ~= ARGV[1] or held[2] ~= ARGV[2] then return {'fenced'} end\nlocal kinds",
            "local kinds",
        ),
        Edit(
            "connectors/redis/scripts.py",
            "if redis.call('LLEN', KEYS[2]) ~= tonumber(ARGV[3]) then return {'damaged'} end",
            "",
        ),
        Edit(
            "connectors/redis/state.py",
            "            fence = (claim.token, claim.version, claim.last - claim.first + 1)\n"
            "            _check_answer(claim, unit.watched(pipe, keys, (scripts.CHECK, len(keys), *keys, *fence)))\n",
            "",
        ),
        Edit(
            "connectors/redis/scripts_outbox.py",
            "if not any and redis.call('HGET', O .. 'holders', ARGV[1]) ~= ARGV[2] then return 0 end",
            "",
        ),
        Edit(
            "connectors/mongodb/state.py",
            '            _of_claim(claim),\n            {"$currentDate"',
            '            {"_id": _key(claim.partition)},\n            {"$currentDate"',
        ),
        Edit(
            "connectors/mongodb/state.py",
            "    if len(documents) == 1:",
            "    for each in documents:\n"
            '        collection.replace_one({"_id": each["_id"]}, each, upsert=True, session=session)\n'
            "    if True:\n        return\n"
            "    if len(documents) == 1:",
        ),
        Edit("connectors/mongodb/lanes.py", '        if lock.get("token") != batch.token:', "        if False:"),
    ),
    "lease": (
        Edit(
            "connectors/buffers.py",
            "        mine = batch.id in tokens and tokens[batch.id] == batch.token",
            "        mine = batch.id in tokens",
        ),
        Edit(
            "connectors/memory/buffer.py",
            "if int(id) in buffer.rows and int(id) in ours]",
            "if int(id) in buffer.rows]",
        ),
        Edit(
            "connectors/memory/buffer.py",
            "        return stored.rows if stored and stored.token == batch.token else []",
            "        return stored.rows if stored else []",
        ),
        Edit(
            "connectors/sql/leased/buffer.py",
            "buffer_rows.drop(at, ours, _ROW.number.in_(page))",
            "buffer_rows.drop(at, _ROW.number.in_(page))",
        ),
        Edit(
            "connectors/sql/leased/buffer.py",
            "_HOLD.id == batch.id, ours).values(free)",
            "_HOLD.id == batch.id).values(free)",
        ),
        Edit(
            "connectors/redis/scripts_packs.py",
            "  redis.call('HDEL', key('holders'), batch[4])\n  hand_out(first, batch)",
            "  hand_out(first, batch)",
        ),
        Edit("connectors/redis/scripts_snapshots.py", "  if lease == ARGV[2] then mine[", "  if lease then mine["),
        Edit(
            "connectors/mongodb/buffer.py",
            "            mine = numbered(name, ids) | _leased_by(snapshot.token)",
            "            mine = numbered(name, ids)",
        ),
        Edit(
            "connectors/mongodb/buffer.py",
            'ours = {"_id": batch.id, "name": name, "token": batch.token}',
            'ours = {"_id": batch.id, "name": name}',
        ),
    ),
    "timeout-lease": (
        Edit(
            "connectors/memory/timeouts.py",
            "        return row is not None and row.locked_by == owner and row.locked_until > self._now()",
            "        return True",
        ),
        Edit(
            "connectors/sql/leased/timeouts.py",
            "            if owner is None:\n                connection.execute(one)",
            "            if True:\n                connection.execute(one)",
        ),
        Edit(
            "connectors/sql/leased/timeouts.py",
            "sent = [row for row in batch if row.id.hex in kept]",
            "sent = list(batch)",
        ),
        Edit(
            "connectors/redis/scripts_timeouts.py",
            "found[i] = ends[i] and tonumber(ends[i]) > now and owners[i] == owner end",
            "found[i] = true end",
        ),
        Edit(
            "connectors/mongodb/timeouts.py",
            '        if owner is None:\n            return self._app | {"_id": str(id)}',
            '        if True:\n            return self._app | {"_id": str(id)}',
        ),
        Edit(
            "connectors/mongodb/timeouts.py",
            '            own |= {"locked_by": batch.owner, "locked_until": {"$gt": server_time(self._data, '
            "session)}}\n",
            "",
        ),
    ),
    "timeout-set-back": (
        Edit("connectors/memory/timeouts.py", "            self._set_back(now)\n", ""),
        Edit("connectors/sql/leased/timeouts.py", "        self._set_back(connection, now)\n", ""),
        Edit("connectors/redis/scripts_timeouts.py", "_SET_LOCKS_BACK, _SET_BACK, ", "_SET_LOCKS_BACK, "),
        Edit("connectors/mongodb/timeouts.py", "        self._set_back(micros(now), free, session)\n", ""),
    ),
    "timeout-lock-set-back": (
        Edit("connectors/memory/timeouts.py", "            self._set_locks_back(until)\n", ""),
        Edit("connectors/sql/leased/timeouts.py", "[row.id for row in due if row.locked_until > now]", "[]"),
        Edit("connectors/redis/scripts_timeouts.py", "_SET_LOCKS_BACK, _SET_BACK", "_SET_BACK"),
        Edit("connectors/mongodb/timeouts.py", '{"$gt": now, "$lte": latest}', '{"$gt": now}'),
    ),
    "timeout-scheduled-lock-set-back": (
        Edit("connectors/sql/leased/timeouts.py", "        connection.execute(_AHEAD_LOCKED, times)\n", ""),
        Edit("connectors/mongodb/timeouts.py", 'late | {"scheduled": {"$gt": micros(now)}}', 'late | {"_id": None}'),
    ),
    "buffer-set-back": (
        Edit("connectors/memory/buffered.py", "self.removed |= {", "{"),
        Edit("connectors/memory/buffered.py", "            if lease.leased_at > now:", "            if False:"),
        Edit("connectors/memory/buffered.py", "row.at = min(row.at, now)", "row.at = row.at"),
        Edit("connectors/buffers.py", "newest._replace(at=min(newest.at, now))", "newest"),
        Edit("connectors/redis/scripts_buffer.py", "math.min(given[4], now)", "given[4]"),
        Edit(
            "connectors/sql/leased/buffer_rows.py",
            "values(kept_until=latest)",
            "values(kept_until=BUFFER_KEY.c.kept_until)",
        ),
        Edit("connectors/sql/leased/buffer_rows.py", "at.holds(leased_at > at.now, ", "at.holds(leased_at < 0, "),
        Edit("connectors/sql/leased/buffer_seals.py", "_ROW.inserted_at > at.now\n", "_ROW.inserted_at < 0\n"),
        Edit("connectors/redis/scripts_buffer.py", "  write('ZADD', key('gone'), written)\n", ""),
        Edit("connectors/redis/scripts_buffer.py", "    if ends then lend(", "    if false then lend("),
        Edit("connectors/redis/scripts_buffer.py", "      if time_of(stored) > now then", "      if false then"),
        Edit("connectors/redis/scripts_snapshots.py", "set_leases_back()\n", ""),
        Edit("connectors/redis/scripts_packs.py", "state[2] and math.min(state[2], now)", "state[2]"),
        Edit("connectors/redis/scripts_packs.py", "        if time_of(pack) > now then", "        if false then"),
        Edit("connectors/mongodb/buffered.py", '{"$set": {"until": latest}}', '{"$set": {}}'),
        Edit("connectors/mongodb/buffered.py", '"leased_at": {"$gt": now}}', '"leased_at": {"$lt": 0}}'),
        Edit("connectors/mongodb/buffered.py", '"at": {"$gt": now}} | OPEN', '"at": {"$lt": 0}} | OPEN'),
    ),
    "outbox-set-back": (
        Edit("connectors/memory/messages.py", "    if row.held_at > now:", "    if False:"),
        Edit("connectors/memory/messages.py", "        if self.claimed_at > now:", "        if False:"),
        Edit("connectors/memory/messages.py", "again if again <= latest else 0.0", "again"),
        Edit("connectors/sql/leased/outbox_lanes.py", "row is not None and row.claimed_at > now", "False"),
        Edit(
            "connectors/sql/leased/outbox_claims.py",
            "where lane = :lane and held_at > :now",
            "where lane = :lane and held_at < 0",
        ),
        Edit("connectors/sql/leased/outbox_claims.py", "self.now < until <= self.latest", "self.now < until"),
        Edit(
            "connectors/sql/leased/outbox_claims.py",
            "or next_attempt_at > {latest!r})",
            "or next_attempt_at > 9 + 9 * {latest!r})",
        ),
        Edit(
            "connectors/redis/scripts_outbox.py", "  if not lasting(begin) then return end", "  if true then return end"
        ),
        Edit("connectors/redis/scripts_outbox.py", "  write('ZADD', O .. 'leased', ends)", ""),
        Edit("connectors/redis/scripts_outbox.py", "return till > now + pause and 0 or till", "return till"),
        Edit("connectors/mongodb/lanes.py", 'lock.get("claimed_at", now) > now', "False"),
        Edit("connectors/mongodb/lanes.py", 'own | {"held_at": {"$gt": now}}', 'own | {"held_at": {"$lt": 0}}'),
        Edit("connectors/mongodb/lanes.py", 'page.get("next_at", now) <= latest', 'page.get("next_at", now)'),
        Edit("connectors/mongodb/lanes.py", ', "$lte": now + pause}', "}"),
    ),
    "of-its-app": (
        Edit(
            "connectors/apps.py",
            'return AppTimeouts(open_one(app), open_one("")) if app else open_one("")',
            'return open_one("")',
        ),
        Edit(
            "connectors/apps.py",
            'return AppOutbox(open_one(app), open_one("")) if app else open_one("")',
            'return open_one("")',
        ),
    ),
}
