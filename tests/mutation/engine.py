"""Guards of the loop, of what is checked at a claim, of crash marks, of the relay and of what is remembered."""

from tests.mutation.guard import NEVER, Guard
from tests.mutation.protections import APART, TOGETHER

E = "tests/unit/engine/"
CHECKS, GAPS = (f"{E}test_checks.py",), (f"{E}test_gaps.py",)
CRASH, RELAY, RECEIVE = (f"{E}test_crash.py",), (f"{E}test_relay.py",), (f"{E}test_receive.py",)
HANDED = (f"{E}test_handed.py",)
HAND_OVER = (f"{E}test_hand_over.py",)
CHANGELOG = ("tests/unit/aggregation/test_changelog.py",)
READ_AGAIN = ("tests/unit/testing/test_shared.py::test_without_the_watermark_what_is_read_again_counts_twice",)
OWNERSHIP, MISPLACED = (f"{E}test_ownership.py", f"{E}test_worker.py"), (f"{E}test_misplaced.py",)

GUARDS = (
    Guard(
        "retention that passed the offset is loud", "streams/ownership/checks.py",
        "    if claim.offset < facts.low:", f"    {NEVER}", CHECKS,
    ),
    Guard(
        "a log that ends before the offset is loud", "streams/ownership/checks.py",
        "    if claim.offset > facts.high:", f"    {NEVER}", CHECKS,
    ),
    Guard("a topic made anew is loud", "streams/ownership/checks.py", "and source.topic_id != facts.topic_id:", "and False:", CHECKS),
    Guard(
        "a wiped store is loud", "streams/ownership/checks.py", "    if claim.offset < 0:\n        raise StoreWiped(",
        f"    {NEVER}\n        raise StoreWiped(", CHECKS,
    ),
    Guard("another store is loud", "streams/ownership/checks.py", "    if incarnation != claim.incarnation:", f"    {NEVER}", CHECKS),
    Guard(
        "a store behind what Kafka was told is loud", "streams/ownership/checks.py",
        "    if facts.committed > claim.offset or rewound(claim, told) or rewound(claim, known):", f"    {NEVER}", CHECKS,
    ),
    Guard(
        "a store behind what this process saw is loud", "streams/ownership/checks.py",
        "        if rewound(claim, known):", f"        {NEVER}", CHECKS,
    ),
    Guard(
        "partitions added under groups that cannot end are loud", "streams/ownership/checks.py",
        "    if open_groups and aggregation.since_first is None", "    if False and aggregation.since_first is None", CHECKS,
    ),
    Guard(
        "records lost between claim and first record are loud", "streams/ownership/checks.py",
        "    if facts.low > offset:", f"    {NEVER}", CHECKS,
    ),
    Guard(
        "rows of another incarnation of the store are loud", "streams/ownership/owner.py",
        "        if self.claim.incarnation != setting.store.incarnation:", f"        {NEVER}",
        GAPS,
    ),
    Guard(
        "a gap ends the partition, not the process", "streams/ownership/claims.py", "        if isinstance(error, Halt):\n",
        f"        {NEVER}\n", GAPS,
    ),
    Guard(
        "what a broker calls out of range is asked of the log", "streams/ownership/claims.py",
        'GAPS: dict[str, type[Halt]] = {"truncated": LogTruncated,',
        'GAPS: dict[str, type[Halt]] = {"truncated": LogTruncated, "out-of-range": LogTruncated,', GAPS,
    ),
    Guard(
        "what could not be read is read again from the offset of the store", "streams/ownership/claims.py",
        '            self.lost(owner, GAPS.get(code, SystemNotReady)(f"reading at offset {owner.offset}: {text}"))',
        "            pass", GAPS,
    ),
    Guard(
        "a missing changelog entry is loud", "streams/aggregation/changelog.py",
        "            if entry.number != expected:", f"            {NEVER}", CHANGELOG,
    ),
    Guard(
        "a changelog that ends early is loud", "streams/aggregation/changelog.py",
        "        if expected != last + 1:", f"        {NEVER}", GAPS,
    ),
    Guard(
        "items that are fewer than were counted are loud", "streams/aggregation/changelog.py",
        "            if len(groups.bags[key][index]) != state[COUNT]:", f"            {NEVER}", CHANGELOG,
    ),
    Guard(
        "a changed rule is named when its old groups have ended", "streams/ownership/owner.py",
        "        if changed and self.groups.states and known is not None:", "        if False and known is not None:",
        (f"{E}test_ending_groups.py",),
    ),
    Guard(
        "one commit ends a bounded number of groups", "streams/ownership/beginning.py",
        "        if slice_size == SLICE or groups.bytes < least:", f"        {NEVER}", (f"{E}test_ending_groups.py",),
    ),
    Guard(
        "a restart does not move a timeout since the last record that was added", "streams/ownership/owner.py",
        "        if self.claim.offset < 0 or self._idle_begins(before):", "        if self.claim.offset < 0:",
        (f"{E}test_idle_added.py",),
    ),
    Guard(
        "a timeout since the last record that was added does not fire at once", "streams/ownership/beginning.py",
        "    return now if known is None or known.idle is None else min(known.idle, now)", "    return 0.0",
        (f"{E}test_idle_added.py",),
    ),
    Guard(
        "a result of more records than a lowered count does not say count", "streams/aggregation/groups.py",
        '"count" if state[COUNT] == count else COUNT_LOWERED', '"count"', (f"{E}test_changed_rule.py",),
    ),
    Guard(
        "nothing is sent before its commit", "streams/ownership/owner.py",
        '        if failpoints.armed and (self.pending or events):\n            failpoints.hit("before-commit")',
        "        self.shard.add(rows, monotonic)",
        (f"{E}test_outbox.py",),
    ),
    Guard(
        "a claim seeks to the offset of the store", "streams/ownership/claims.py",
        "        del self._taking[place]\n        self._setting.input.start(*place, owner.offset, owner.epoch)",
        "        del self._taking[place]\n        if place in self._backoffs:\n            self._setting.input.resume([place])\n"
        "        else:\n            self._setting.input.start(*place, owner.offset, owner.epoch)",
        OWNERSHIP,
    ),
    Guard(
        "records that were read before a claim are not taken under it", "streams/engine/worker.py",
        "        if batch:\n            self._accept(batch, now)",
        "        if self._claims.retrying and batch:\n            self._claims.advance(now)\n"
        "        if batch:\n            self._accept(batch, now)",
        OWNERSHIP,
    ),
    Guard(
        "records from before a seek are void", "streams/ownership/claims.py", "        if place in self._void:\n            return True",
        "        if place in self._void:\n            return False", MISPLACED,
    ),
    Guard(
        "a version that a claim of before the rewind reached again is loud", "streams/ownership/checks.py",
        "    return bool(told and claim.source and claim.source.since <= known.version)", "    return False", CHECKS,
    ),
    Guard(
        "a first record above the offset is sought until it comes twice", "streams/ownership/claims.py",
        "        if self._again.get(place) == record.offset():", "        if place in self._again:", MISPLACED,
    ),
    Guard(
        "records below the offset count once", "streams/ownership/owner.py",
        "        if records[0].offset() < self.offset and not (records := [each for each in records if each.offset() >= self.offset]):",
        "        if False:", OWNERSHIP,
    ),
    Guard(
        "after a commit of unknown result the state is read again", "streams/engine/worker.py",
        '        if isinstance(error, Fenced):\n            self._parts.meter.count("fenced_commits")',
        "        if isinstance(error, PersistenceError):\n            return\n"
        '        if isinstance(error, Fenced):\n            self._parts.meter.count("fenced_commits")',
        OWNERSHIP,
    ),
    Guard(
        "the owner's clock never goes back", "streams/ownership/store_clock.py",
        "        self.last = max(self.last, self._at + monotonic - self._monotonic)",
        "        self.last = self._at + monotonic - self._monotonic", (f"{E}test_deadlines.py",),
    ),
    Guard(
        "a deadline that moved fires nothing", "streams/aggregation/groups.py", "            if at <= now:", "            if True:",
        (f"{E}test_deadlines.py", "tests/unit/aggregation/test_same_fires.py"),
    ),
    Guard(
        "only a mark at this offset is a crash here", "streams/ownership/crash.py",
        "trying is None or trying.offset != offset:", "trying is None:", CRASH,
    ),
    Guard(
        "a record is poison only when the last death was in it alone", "streams/handlers/attempts.py",
        "if suspicion.alone and ends >= bounds.most:", "if ends >= bounds.most:", CRASH,
    ),
    Guard(
        "one's own name is no crash", "streams/ownership/crash.py",
        "if name.rstrip(STEPS + SINGLE) != self._process)", "if name)", CRASH,
    ),
    Guard(
        "who lives takes its mark back", "streams/ownership/claims.py",
        "if owner.marks.names():", NEVER, CRASH,
    ),
    Guard(
        "a commit that does not get on keeps the mark", "streams/ownership/owner.py",
        "return self.claim.trying if offset == self.claim.offset else None", "return None", CRASH,
    ),
    Guard(
        "a commit does not pass a message that waits for another try", "streams/handlers/held.py",
        "return (offset_of(self.items[0]), epoch_of(self.items[0])) if self.items else (offset, epoch)", "return offset, epoch",
        (f"{E}test_held.py",),
    ),
    Guard(
        "a record that kills becomes a dead letter", "streams/ownership/crash.py",
        "            self.poisoned = True\n", "            self.poisoned = False\n", CRASH,
    ),
    Guard(
        "a repeat of a sender is dropped", "streams/reading/receive.py",
        "if number in known.numbers:\n            return True", f"{NEVER}\n            return True", RECEIVE,
    ),
    Guard(
        "what is below the highest and was not seen is new", "streams/reading/receive.py",
        "if number in known.numbers:\n            return True", "if number <= known.highest:\n            return True", RECEIVE,
    ),
    Guard(
        "numbers meant for another topic are no repeat", "streams/reading/receive.py",
        'if not arrow or target.rpartition("#")[0] != self.topic or', "if not arrow or", RECEIVE,
    ),
    Guard(
        "exactly the reported rows are recorded", "streams/outbox/relay.py",
        "        return delivered, dead\n",
        "        return list(range(1, max(delivered, default=0) + 1)), dead\n", RELAY,
    ),
    Guard(
        "nothing newer overtakes a row that failed", "streams/outbox/sender.py",
        '            self._meter.count("dispatch_attempts", outcome="transient")\n',
        "            source.waiting.append(source.out.pop(row.number))\n            return\n", RELAY,
    ),
    Guard(
        "repeats lie within what receivers remember", "streams/outbox/relay.py",
        "return number - (self.lowest or number) < SPREAD", "return True", RELAY,
    ),
    Guard(
        "rows of a lost future are not sent", "streams/outbox/relay.py",
        "[row for row in rows if row.number <= self._claimed or row.lineage == self._lineage]", "rows", RELAY,
    ),
    Guard(
        "a row that was handed over under an earlier claim is not handed over again", "streams/outbox/relay.py",
        "            if self._resumed(row):", "            if False:", HANDED,
    ),
    Guard(
        "what arrived is recorded before the group takes a partition", "streams/engine/worker.py",
        "        self._commits.record([owner for owner in owners if owner.shard.reported])", "        return", HAND_OVER,
    ),
    Guard(
        "reports are waited for before the group takes a partition", "streams/engine/worker.py",
        "            self._parts.producer.flush(FLUSH)\n        self._commits.record(",
        "            break\n        self._commits.record(", HAND_OVER,
    ),
    Guard(
        "a clean stop claims lost partitions once more", "streams/engine/worker.py",
        "        self._claims.claim_once_more(self._relay.unrecorded(), clock.monotonic())", "        return", HAND_OVER,
    ),
    Guard(
        "a row of another lineage was not handed over", "streams/outbox/handed.py",
        "        if before.reports.delivered.get(number) == known:", "        if number in before.reports.delivered:", HANDED,
    ),
    Guard(
        "the reports of a commit that failed are not lost", "streams/outbox/handed.py",
        "for reports in (last._taken, last._reports):", "for reports in (last._reports,):", HANDED,
    ),
    Guard(
        "late reports of rows that went back change nothing", "streams/outbox/handed.py",
        "        return self.arrived([self.out[number] for number in numbers if number in self.out])",
        "        for number in numbers:\n            self.out.pop(number, None)\n"
        '        self._reports.delivered.update(dict.fromkeys(numbers, ""))\n        return len(numbers)', RELAY,
    ),
    Guard(
        "a row of a lane that was lost and taken again is not handed over again", "streams/outbox/lane_run.py",
        "        self.waiting.extend(row for row in rows if not self._resumed(row))\n",
        "        self.waiting.extend(rows)\n", ("tests/unit/leased/test_lost_lanes.py",),
    ),
    Guard(
        "marks that fail while the dispatcher stops are made again", "streams/outbox/lane_relay.py",
        "            self._unavailable(lane, error)\n            lane.unmarked = ",
        "            if self.closing:\n                return self._forget(lane)\n"
        "            self._unavailable(lane, error)\n            lane.unmarked = ", ("tests/unit/leased/test_lost_lanes.py",),
    ),
    Guard(
        "each claim numbers its rows in a shard of its own", "streams/outbox/rows.py",
        "self._lineage, self.number = lineage, number", 'self._lineage, self.number = "", number',
        (f"{E}test_rows.py", f"{E}test_outbox.py"),
    ),
    Guard(
        "a message that was written twice counts once", "streams/reading/dedupe.py",
        "            elif identity is not None and holds(identity, now):", "            elif False:", (f"{E}test_dedupe.py",),
    ),
    Guard(
        "what was refused does not count as seen", "streams/ownership/owner.py",
        "        ids = self.dedupe.given_up(events) if self.dedupe else []", "        ids: list[bytes] = []",
        (f"{E}test_dedupe_handlers.py",),
    ),
    Guard(
        "what was sealed is restored as it was", "streams/handlers/sealed.py",
        "        for number, packed in section.items.items():",
        "        return\n        for number, packed in section.items.items():",
        (f"{E}test_slow.py",),
    ),
    Guard(
        "a call that was cut off is no attempt", "streams/handlers/slow.py",
        "    if not cut_off:", "    if True:", (f"{E}test_cut_off.py",),
    ),
    Guard(
        "a handler's writes and the offset are one commit", "streams/handlers/session.py",
        TOGETHER, APART,
        (f"{E}test_sessions.py",),
    ),
    Guard(
        "a refused certificate or password is not tried again",
        "streams/cli/waiting.py", "                if error.permanent:\n",
        "                if False:\n", ("tests/unit/cli/test_wiring.py", "tests/unit/cli/test_waiting.py"),
    ),
    Guard(
        "the source's watermark moves with the insert", "streams/shared/shared_runs.py",
        "entries, self._gate, moves, self._keep)", "entries, self._gate, None, self._keep)", READ_AGAIN,
    ),
    Guard(
        "of a lane, nothing overtakes a row that failed", "streams/outbox/sender.py",
        "                self._failed_at = self._now\n", "                source.again()\n",
        ("tests/unit/leased/test_lane_sender.py", "tests/contracts/dispatcher/test_lanes.py"),
        "not redis and not postgresql and not mariadb and not mongodb",
    ),
    Guard(
        "of a lane, nothing goes past a row that is denied", "streams/outbox/lane_run.py",
        "        self.stop()  # nothing goes past it\n", "", ("tests/unit/leased/test_lane_sender.py",),
    ),
    Guard(
        "an error that ends a worker of the shared scope waits for its calls", "streams/engine/worker.py",
        "            self._setting.finish()\n", "            pass\n", ("tests/unit/leased/test_shared_end.py",),
    ),
    Guard(
        "an error that ends the dispatcher waits for its calls", "streams/outbox/dispatcher.py",
        "            self._calls.finish()\n", "            pass\n", ("tests/unit/leased/test_dispatcher_end.py",),
    ),
    Guard(
        "a batch in hand is given back before a stop", "streams/shared/shared_fires.py",
        "        self._calls.finish()\n", "", ("tests/unit/leased/test_shared_end.py",),
    ),
    Guard(
        "a batch in hand is given back before an error ends its worker", "streams/shared/shared_fires.py",
        "        self._give_back(list(self._jobs.values()))\n", "", ("tests/unit/leased/test_suspects.py",),
    ),
    Guard(
        "a batch that may end its process runs alone", "streams/shared/shared_fires.py",
        "        self._give_back([job for job in self._resting() if job is not suspect])\n", "",
        ("tests/unit/leased/test_suspects.py",),
    ),
    Guard(
        "a batch that ends its process again and again is given up", "streams/handlers/attempts.py",
        "if suspicion.alone and ends >= bounds.most:", NEVER, ("tests/unit/leased/test_suspects.py",),
    ),
    Guard(
        "an outage is no attempt", "streams/handlers/attempts.py",
        "TryAgain(attempt - 1, failure.pause, failed=False)", "TryAgain(attempt, failure.pause)",
        (f"{E}test_rows_together.py", f"{E}test_attempts.py"),
    ),
    Guard(
        "what failed with others is tried again without them", "streams/handlers/attempts.py",
        "if failure.bad or failure.items > 1:", "if failure.bad:", (f"{E}test_rows_together.py", f"{E}test_attempts.py"),
    ),
    Guard(
        "what is given back does not count as tried", "streams/handlers/attempts.py",
        "self._replace(together=self.together - 1)", "self", ("tests/unit/leased/test_suspects.py",),
    ),
)  # fmt: skip
