"""Guards of `lookup:`."""

from tests.mutation.guard import NEVER, Guard

RECORDS = ("tests/unit/lookups/test_records.py",)
APART = ("tests/unit/lookups/test_apart.py",)
RESULTS = ("tests/unit/lookups/test_results.py",)
TABLES = ("tests/unit/lookups/test_tables.py",)
HANDLED = ("tests/unit/lookups/test_handled.py",)
STORES = ("tests/contracts/test_lookups.py",)

GUARDS = (
    Guard(
        "lookup: a table that is not complete answers nothing",
        "streams/lookups/tables.py",
        "        if not self._complete:\n            raise",
        f"        {NEVER}\n            raise",
        TABLES,
    ),
    Guard(
        "lookup: no partition is claimed before its tables answer",
        "streams/engine/worker.py",
        "        return not self._tables.waits_for\n",
        "        return True\n",
        TABLES,
    ),
    Guard(
        "lookup: a table is complete when it was read to its end",
        "streams/lookups/tables.py",
        "        elif not self._complete and feed.complete:\n",
        "        elif not self._complete:\n",
        TABLES,
    ),
    Guard(
        "lookup: a tombstone deletes the row",
        "streams/lookups/tables.py",
        "        old = self._rows.pop(key, None)\n",
        "        old = None if row is None else self._rows.pop(key, None)\n",
        TABLES,
    ),
    Guard(
        "lookup: a record that is no row leaves the old row",
        "streams/lookups/tables.py",
        "            return self._left_out(record, error)\n",
        "            self._rows.clear()\n            return self._left_out(record, error)\n",
        TABLES,
    ),
    Guard(
        "lookup: a table that is full answers nothing",
        "streams/lookups/tables.py",
        "        if len(self) > self.lookup.max_rows or self.bytes > self.lookup.max_table_bytes:\n",
        f"        {NEVER}\n",
        TABLES,
    ),
    Guard(
        "lookup: a topic that cannot be read on is read anew from an empty table",
        "streams/lookups/tables.py",
        "        self._rows, self.bytes, self._complete = {}, 0, False\n",
        "        self._complete = False\n",
        TABLES,
    ),
    Guard(
        "lookup: a commit sees what the process has received",
        "streams/lookups/tables.py",
        "        table.follow()\n        return",
        "        return",
        TABLES,
    ),
    Guard(
        "lookup: rows are read in the transaction of the commit",
        "streams/lookups/rows.py",
        "        return self._store.look_up(session, lookup, keys)\n",
        "        return self._store.look_up(type(session)(self._store.values), lookup, keys)\n",
        RECORDS,
    ),
    Guard(
        "lookup: rows of the first try are not kept",
        "streams/lookups/rows.py",
        "        return LookedUp(self.lookups, rows)\n",
        '        self.kept = getattr(self, "kept", None) or LookedUp(self.lookups, rows)\n        return self.kept\n',
        RECORDS,
    ),
    Guard(
        "lookup: rows are read when the commit begins, and not before",
        "streams/ownership/owner.py",
        "        if processor.session and waiting and not",
        "        if processor.session and processor.batches and waiting and not",
        RECORDS,
    ),
    Guard(
        "lookup: nothing passes a record that waits for its row",
        "streams/lookups/records.py",
        "                self._waits.over(place, item, missing, failures)\n",
        "                pass\n",
        RECORDS,
    ),
    Guard(
        "lookup: what lies before a record that waits is committed",
        "streams/lookups/rows.py",
        "            failures.apart.add(item.offset)\n",
        "            pass\n",
        RECORDS,
    ),
    Guard(
        "lookup: a record waits no longer than the file says",
        "streams/lookups/rows.py",
        "        if remaining <= 0:\n",
        f"        {NEVER}\n",
        RECORDS,
    ),
    Guard(
        "lookup: a slow call begins only when its rows were read",
        "streams/lookups/handled.py",
        "        return admitted, events\n",
        "        return ready, events\n",
        APART,
    ),
    Guard(
        "lookup: a dead letter has the record as it came",
        "streams/lookups/records.py",
        "    if isinstance(event, Refused) and isinstance(event.record, EnrichedRecord):",
        f"    {NEVER}",
        RECORDS,
    ),
    Guard(
        "lookup: a field of the message with the name of the row is replaced",
        "streams/lookups/records.py",
        "    if _has_own(inside, names):\n",
        f"    {NEVER}\n",
        RECORDS,
    ),
    Guard(
        "lookup: the id of a record that was refused after its lookup may come again",
        "streams/reading/dedupe.py",
        '(event.stage == "handler" or event.looked_up)',
        'event.stage == "handler"',
        RECORDS,
    ),
    Guard(
        "lookup: having and routes wait for the row",
        "streams/aggregation/rule.py",
        "self.results = None if agent.lookups else results(agent)",
        "self.results = results(agent)",
        RESULTS,
    ),
    Guard(
        "lookup: a group that expires without a result is not looked up, and no handler gets it",
        "streams/aggregation/groups.py",
        '        send = self.emit if on_timeout == "fire" else self._letter\n',
        "        send = self.emit\n",
        RESULTS,
    ),
    Guard(
        "lookup: a handler is not called without a row that must be there",
        "streams/lookups/handled.py",
        "        if missing is None:\n            return rows",
        "        if True:\n            return rows",
        HANDLED,
    ),
    Guard(
        "lookup: a row that was found cannot change under lock: share",
        "connectors/sql/lookups.py",
        "if lookup.lock else",
        "if False else",
        STORES,
        "postgresql",
    ),
    Guard(
        "lookup: on Redis a row that changes undoes the commit",
        "connectors/redis/lookups.py",
        "                pipe.watch(*names)\n",
        "",
        STORES,
        "redis",
    ),
    Guard(
        "lookup: only the very key is found",
        "connectors/lookups.py",
        "    return {key: by_name[name] for key in keys if (name := key if type(key) is str else name_of(key)) "
        "in by_name}",
        "    by_name = {name.lower().strip(): row for name, row in by_name.items()}\n"
        "    return {key: by_name[name] for key in keys if (name := name_of(key).lower().strip()) in by_name}",
        STORES,
        "mariadb",
    ),
    Guard(
        "lookup: two rows with one key are an error",
        "connectors/lookups.py",
        "        if name in by_name:",
        f"        {NEVER}",
        STORES,
        "sqlite",
    ),
    Guard(
        "lookup: a key of another type does not fail the query",
        "connectors/sql/lookups.py",
        "    return number if str(number) == str(key) and -LARGEST <= number < LARGEST else None",
        "    return number",
        STORES,
        "postgresql",
    ),
    Guard(
        "lookup: nothing that is decided before the commit can name a row",
        "streams/config/sections/lookups.py",
        "            yield from _named_before(agent, path)\n",
        "",
        ("tests/unit/config/test_lookups.py",),
    ),
)
