"""Protections of the product, by name: the edits of its source that take each one out. A twin is a test that runs
without one.

`tests/mutation/twins.py` applies the edits, in the process of the test or in the processes that the test starts. The
product knows nothing of this table. A unit test checks that every text is still in its file.
"""

from tests.mutation import protections_stores
from tests.mutation.twin.edits import Edit

TOGETHER = """\
        failpoints.hit("before-commit")
        return commits[-1].changes

    while True:
        called.clear()
        try:
            return store.commit_with(claim, work), commits[-1]
"""
APART = """\
        return commits[-1].changes

    def apart() -> Any:
        worked: list[Changes] = []

        def writes(session: Any) -> Changes:
            worked.append(work(session))
            return Changes(claim.offset, claim.epoch, trying=claim.trying)

        between = store.commit_with(claim, writes)
        if len(items) > 1:  # a single message may be one that was given up, and that wrote nothing
            failpoints.hit("before-commit")
        return store.commit_with(between, lambda session: worked[-1])

    while True:
        called.clear()
        try:
            return apart(), commits[-1]
"""
PROTECTIONS: dict[str, tuple[Edit, ...]] = {
    **protections_stores.PROTECTIONS,
    # -- lookups -------------------------------------------------------------------------------------------------------
    "table-ready-early": (
        Edit(
            "streams/lookups/tables.py",
            "        elif not self._complete and feed.complete:\n",
            "        elif not self._complete:\n",
        ),
    ),
    "lookup-inside": (
        Edit(
            "streams/lookups/rows.py",
            "        columns = zip(*wanted, strict=True) if wanted else ((),) * len(self.lookups)\n",
            """        if not getattr(self, "apart", False):
            self.apart = True
            try:
                with self._store.transaction() as other:
                    return self.read(other, wanted)
            finally:
                self.apart = False
        columns = zip(*wanted, strict=True) if wanted else ((),) * len(self.lookups)
""",
        ),
    ),
    # -- windows -------------------------------------------------------------------------------------------------------
    "origins": (
        Edit(
            "streams/windows/merged.py",
            "        least = min(self._limits().values(), default=NEVER)\n        if least <=",
            "        least = max(self._limits().values(), default=NEVER)\n        if least <=",
        ),
    ),
    "asked-end": (Edit("streams/engine/event_clock.py", "time - (now - self._asked.get(place, -inf))", "time"),),
    "closed-windows": (
        Edit("streams/aggregation/durable/changelog.py", "            closed=_chosen(groups.closed, states),\n", ""),
        Edit(
            "streams/aggregation/durable/changelog.py",
            "                part.closed = _chosen(groups.closed, names)\n",
            "",
        ),
    ),
    "window-end": (
        Edit(
            "streams/engine/event_clock.py",
            "self._claims.intake.reads(place) and not came\n",
            "self._claims.intake.reads(place) and False\n",
        ),
    ),
    # -- ownership and commits -----------------------------------------------------------------------------------------
    "output-commit": (
        Edit(
            "streams/ownership/owner.py",
            "        if failpoints.armed and (self.intake.pending or events):\n"
            '            failpoints.hit("before-commit")',
            "        self.shard.add(rows, monotonic)\n"
            "        if failpoints.armed and (self.intake.pending or events):\n"
            '            failpoints.hit("before-commit")',
        ),
        Edit("streams/ownership/owner.py", "        self.shard.add(changes.outbox, monotonic)\n", ""),
        Edit(
            "streams/engine/worker.py",
            '        if isinstance(error, Fenced):\n            self._parts.meter.count("fenced_commits")',
            "        self._relay.turn(self._shards(), self._parts.clock.monotonic())\n"
            '        if isinstance(error, Fenced):\n            self._parts.meter.count("fenced_commits")',
        ),
    ),
    "restore-groups": (
        Edit(
            "streams/aggregation/durable/changelog.py",
            "                _apply(groups, entry)\n",
            "                pass\n",
        ),
    ),
    "keep-state": (
        Edit(
            "streams/engine/worker.py",
            '        if isinstance(error, Fenced):\n            self._parts.meter.count("fenced_commits")',
            "        from sluicegate.streams.errors import PersistenceError\n\n"
            "        if isinstance(error, PersistenceError):\n            return\n"
            '        if isinstance(error, Fenced):\n            self._parts.meter.count("fenced_commits")',
        ),
    ),
    "seek": (
        Edit(
            "streams/ownership/claims.py",
            "        del self._taking[place]\n"
            "        self._setting.input.start(*place, owner.intake.offset, owner.intake.epoch)\n",
            "        del self._taking[place]\n"
            "        if place in self.retries.backoffs:\n"
            "            self._setting.input.resume([place])\n"
            "        else:\n"
            "            self._setting.input.start(*place, owner.intake.offset, owner.intake.epoch)\n",
        ),
        Edit(
            "streams/ownership/claiming/fetches.py",
            "        if owner.marks.begun or record.offset() <= owner.intake.offset:",
            "        if True:",
        ),
    ),
    "stale-batch": (
        Edit(
            "streams/ownership/claims.py",
            "        self._setting.input.pause([place])\n        self.intake.begins(place)",
            "        self.intake.begins(place)",
        ),
        Edit(
            "streams/ownership/claiming/fetches.py",
            "        if owner.marks.begun or record.offset() <= owner.intake.offset:",
            "        if True:",
        ),
        Edit(
            "streams/engine/worker.py",
            "        if batch:\n            self._accept(batch, now)",
            "        early = bool(self._claims.retries.backoffs)\n"
            "        if early and batch:\n            self._claims.advance(now)\n"
            "        if batch:\n            self._accept(batch, now)",
        ),
        Edit(
            "streams/engine/worker.py",
            "        if self._tables_answer():\n",
            "        if self._tables_answer() and not early:\n",
        ),
    ),
    "claim-checks": (
        Edit(
            "streams/ownership/claiming/takeover.py",
            "        self._check()\n        if claim.incarnation != setting.store.incarnation:",
            "        if False:",
        ),
    ),
    "restore-numbers": (
        Edit(
            "streams/aggregation/durable/changelog.py",
            "            if entry.number != expected:",
            "            if False:",
        ),
        Edit("streams/aggregation/durable/changelog.py", "        if expected != last + 1:", "        if False:"),
    ),
    "crash-marks": (
        Edit("streams/ownership/crash.py", "        if trying is None or trying.offset != offset:", "        if True:"),
    ),
    "probe": (
        Edit("streams/ownership/probing.py", "            if not self._suspected(owner):", "            if True:"),
    ),
    "probe-bound": (
        Edit("streams/ownership/probing.py", "            self._source.bound(*place, until)", "            pass"),
    ),
    "probe-proof": (
        Edit(
            "streams/ownership/probing.py",
            "        if fetchable.why and fetchable.until <= owner.intake.offset:",
            "        if owner.marks.suspected:",
        ),
    ),
    "kept-fetches": (
        Edit("streams/ownership/intake_pauses.py", "            if place in self._alone:", "            if False:"),
    ),
    "engine-faults": (
        Edit(
            "streams/handlers/engine_faults.py",
            "    except (SluicegateError, failpoints.Failpoint):",
            "    except Exception:",
        ),
    ),
    "group-faults": (
        Edit("streams/ownership/crash.py", "            self.group_faults.note(error)", "            pass"),
    ),
    "shared-faults": (
        Edit("streams/shared/shared_fires.py", "            if job.faults >= DEATHS:", "            if False:"),
    ),
    "restore-net": (
        Edit(
            "streams/ownership/claims.py",
            "            with engine_faults():\n                for events",
            "            if True:\n                for events",
        ),
    ),
    "clear-crash-mark": (Edit("streams/ownership/claims.py", "        if owner.marks.names():", "        if False:"),),
    # -- handlers ------------------------------------------------------------------------------------------------------
    "session": (Edit("streams/handlers/session.py", TOGETHER, APART),),
    "sealed": (
        Edit(
            "streams/handlers/sealed.py",
            "        for number, packed in section.items.items():",
            "        return\n        for number, packed in section.items.items():",
        ),
    ),
    "give-back": (Edit("streams/handlers/slow.py", "    if not cut_off:", "    if True:"),),
    # -- the relay and the ids of rows ---------------------------------------------------------------------------------
    "relay-order": (
        Edit(
            "streams/outbox/sender.py",
            '            self._meter.count("dispatch_attempts", outcome="transient")\n',
            "            source.waiting.append(source.out.pop(row.number))\n            return\n"
            '            self._meter.count("dispatch_attempts", outcome="transient")\n',
        ),
    ),
    "exact-acks": (
        Edit(
            "streams/outbox/relay.py",
            "        return delivered, dead\n",
            "        delivered = list(range(1, delivered[-1] + 1)) if delivered else delivered\n"
            "        return delivered, dead\n",
        ),
    ),
    "relay-doubt": (
        Edit(
            "streams/outbox/transactional.py", "        lane.shard.doubted = True", "        lane.shard.doubted = False"
        ),
    ),
    "relay-fence": (
        Edit(
            "connectors/kafka/transactions.py",
            "problems.client(Consumer, settings.offsets(kafka, group))",
            # else it would wait for what a zombie holds
            'problems.client(Consumer, {**settings.offsets(kafka, group), "isolation.level": "read_uncommitted"})',
        ),
        Edit(
            "connectors/kafka/transactions.py",
            '        self._identity = "/".join(map(str, partition))\n',
            '        self._identity = "/".join(map(str, partition)) + f"/{id(self)}"\n',
        ),
        Edit(
            "streams/testing/transactions.py",
            "        if self._epoch != self.log.epochs.get(self.partition):",
            "        if False:",
        ),
    ),
    "relay-cursor": (
        Edit(
            "connectors/kafka/transactions.py",
            "            return self._cursors.read(self._partition)",
            "            return {}",
        ),
        Edit("connectors/kafka/transactions.py", "        self._add(cursor)\n", ""),
        Edit(
            "streams/testing/transactions.py",
            "        return self.log.cursors.get(self.partition, {})",
            "        return {}",
        ),
    ),
    "row-identity": (
        Edit(
            "streams/outbox/relay.py",
            "        return row if row.lineage == self._lineage else withdrawn(row)\n",
            """        if row.lineage == self._lineage:
            return row
        again = [(name, (value or b"") + b"-again" * (name == "sluicegate-shard")) for name, value in row.headers]
        from msgspec.structs import replace

        return replace(row, headers=again)
""",
        ),
    ),
    "row-partition": (
        Edit(
            "connectors/kafka/producer.py",
            "                produce(row.topic, row.value, row.key, row.partition, done,",
            "                produce(row.topic, row.value, row.key, -1, done,",
        ),
    ),
    "lineage": (
        Edit(
            "streams/outbox/rows.py",
            "        self._claim = RowsOfClaim(lineage, ",
            '        self._claim = RowsOfClaim("", ',
        ),
    ),
    "receive": (
        Edit(
            "streams/reading/receive.py",
            "        if number in known.numbers:\n            return True",
            "        if False:\n            return True",
        ),
    ),
    "no-proof": (
        Edit(
            "streams/reading/proof.py",
            "return self.mac if 0 <= self.since <= record.offset() else None\n",
            "return None\n",
        ),
    ),
    "keys": (
        Edit(
            "streams/cli/child.py",
            "        mac=live_keys.opened(store, app.name, _name, time.monotonic),\n        input=",
            "        mac=None,\n        input=",
        ),
    ),
    "left-out": (
        Edit(
            "streams/ownership/intake.py",
            "        self.offset = last.offset() + 1\n",
            "        self.offset = last.offset() + 1 if taken(self.groups.newest, fresh) else self.offset\n",
        ),
    ),
    "dedupe": (
        Edit("streams/reading/dedupe.py", "            elif known:\n", "            elif False:\n"),
        Edit("streams/aggregation/compiled/dedupe.py", "if identity in accepted:", "if False:"),
    ),
    # -- what a person does --------------------------------------------------------------------------------------------
    "retried": (
        Edit(
            "streams/operations/dead/dead_letters.py",
            "        history = by_letter(journal.notes(store, app))\n",
            "        history = {}\n",
        ),
    ),
    "retry-looked": (
        Edit(
            "streams/operations/dead/dead_letters.py",
            "    if not ids:\n        return set()",
            "    if True:\n        return set()",
        ),
    ),
    "links-of-the-loop": (
        Edit("streams/aggregation/compiled/loop.py", "_LINKED if linked else", "_LINKED if False else"),
    ),
    "mandatory-attributes": (
        Edit(
            "schemas/cloud_events.py",
            "        if not isinstance(content, str) or not content:\n",
            "        if False:\n",
        ),
    ),
    "earlier-rule-first": (
        Edit(
            "streams/ownership/owner.py",
            "self.groups.older.results(self.rows) if self.groups.older else ((), ())",
            "(), ()",
        ),
        Edit(
            "streams/ownership/owner.py",
            "        if apart:\n            rows, events, decisions = [*earlier, *rows]",
            "        if self.groups.older:\n            apart, earlier = self.groups.older.results(self.rows)\n"
            "            rows, events, decisions = [*rows, *earlier]",
        ),
    ),
    "event-before-older": (
        Edit(
            "streams/ownership/intake.py",
            "again = as_read(groups.newest, groups.older.select_reread(fresh))",
            "again = groups.older.select_reread(fresh)",
        ),
    ),
    "event-id": (
        Edit(
            "streams/outbox/rows.py", '"id": identity, "source"', '"id": f"{identity}/{self._claim.lineage}", "source"'
        ),
    ),
    "own-headers": (
        Edit(
            "streams/operations/dead/dead_letters.py",
            "    before = takewhile(lambda header: not header[0].startswith(DEAD), letter.headers)\n",
            "    before = letter.headers\n",
        ),
    ),
    "revived": (
        Edit("streams/operations/dead/dead_rows.py", "    gone = [row.number for row in rows]", "    gone = []"),
    ),
    "rebuild-boundaries": (
        Edit(
            "streams/operations/rebuilding/rebuild_plan.py",
            "                    for record in records:\n                        messages.take(record, proof)",
            "                    for record in ():\n                        messages.take(record, proof)",
        ),
    ),
    "rebuild-mark": (
        Edit(
            "streams/operations/rebuilding/rebuild_write.py",
            "    claim = _marked(store, claim)\n",
            "    claim = _marked(store, claim, built.offset)\n",
        ),
        Edit(
            "streams/operations/rebuilding/rebuild_write.py",
            "Changes(-1, entries=blobs)",
            "Changes(built.offset, entries=blobs)",
        ),
        Edit(
            "streams/operations/rebuilding/rebuild_write.py",
            "Changes(-1, outbox=made",
            "Changes(built.offset, outbox=made",
        ),
        Edit(
            "streams/operations/rebuilding/rebuild_write.py",
            "def _marked(store: Store, claim: Claim) -> Claim:",
            "def _marked(store: Store, claim: Claim, begun: int) -> Claim:",
        ),
        Edit(
            "streams/operations/rebuilding/rebuild_write.py",
            "    claim = store.commit(claim, Changes(-1, entries=[REBUILDING], keep_from=number))",
            "    blob = packed(ChangelogEntry(number, claim.store_time, {}, {}, {}, {}, {}), compress=False)\n"
            "    claim = store.commit(claim, Changes(begun, entries=[blob], keep_from=number))",
        ),
        Edit(
            "streams/operations/rebuilding/rebuild_write.py",
            "Changes(-1, dispatched=[row.",
            "Changes(begun, dispatched=[row.",
        ),
    ),
    "fresh-secrets": (
        Edit(
            "streams/processes/supervisor.py",
            "            if slot.since:\n                slot.job",
            "            if False:\n                slot.job",
        ),
    ),
    # -- leases --------------------------------------------------------------------------------------------------------
    "lane-source": (
        Edit(
            "streams/outbox/dispatcher.py",
            "LaneRows(parts.producer, parts.source, parts.mac)",
            "LaneRows(parts.producer, parts.token(), parts.mac)",
        ),
    ),
    "mark-last": (
        Edit(
            "streams/outbox/lane_relay.py",
            "        return self._rows.ordered(batch)\n",
            "        found = self._rows.ordered(batch)\n"
            '        self._outbox.mark(batch, [Outcome(row.id, "dispatched") for row in found.rows])\n'
            "        return found\n",
        ),
    ),
    # -- the shared buffer, and Faust's --------------------------------------------------------------------------------
    "watermark": (
        Edit(
            "streams/shared/shared_runs.py",
            "        common = Common(topic, moves.topic_id, moves.partition, self._time())",
            "        moves = moves._replace(expected=self._buffer.position(self._name, moves.topic_id, "
            "moves.partition))\n"
            "        common = Common(topic, moves.topic_id, moves.partition, self._time())",
        ),
        Edit(
            "streams/shared/shared_runs.py",
            "entries, self._gate, moves, self._keep)",
            "entries, self._gate, None, self._keep)",
        ),
        Edit(
            "streams/shared/shared_intake.py",
            "            stands = self._buffer.position(self._name, topic_id, place[1])",
            "            stands = 0",
        ),
    ),
    "shared-dues": (
        Edit("streams/shared/shared_runs.py", "        run.dues.append((record.offset(), due))\n", "        pass\n"),
    ),
    "shared-retry-once": (
        Edit("streams/operations/dead/dead_shared.py", "    if stands > number:\n", "    if False:\n"),
    ),
    "shared-suspects": (
        Edit(
            "streams/shared/shared_leases.py",
            "        if self._bounds is None:\n            return None\n        return next(",
            "        if True:\n            return None\n        return next(",
        ),
    ),
    "faust-order": (
        Edit(
            "connectors/faust.py",
            "        while True:\n            source = await self._source(place",
            "        for event in events:\n            event.ack()\n"
            "        while True:\n            source = await self._source(place",
        ),
    ),
    "faust-watermark": (
        Edit(
            "connectors/faust.py",
            "entries, self._gate, progress, self._keep_keys)",
            "entries, self._gate, None, self._keep_keys)",
        ),
        Edit("connectors/faust.py", "entries, progress, self._keep_keys)", "entries, None, self._keep_keys)"),
    ),
}
