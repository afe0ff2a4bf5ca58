"""Guards of the relay, of lanes, and of rows that are handed over."""

from tests.mutation.guard import NEVER, Guard

E = "tests/unit/engine/"
CRASH, RELAY, RECEIVE = (f"{E}test_crash.py",), (f"{E}test_relay.py",), (f"{E}test_receive.py",)
HANDED = (f"{E}test_handed.py",)
HAND_OVER = (f"{E}test_hand_over.py",)

GUARDS = (
    Guard(
        "exactly the reported rows are recorded",
        "streams/outbox/relay.py",
        "        return delivered, dead\n",
        "        return list(range(1, max(delivered, default=0) + 1)), dead\n",
        RELAY,
    ),
    Guard(
        "nothing newer overtakes a row that failed",
        "streams/outbox/sender.py",
        '            self._meter.count("dispatch_attempts", outcome="transient")\n',
        "            source.waiting.append(source.out.pop(row.number))\n            return\n",
        RELAY,
    ),
    Guard(
        "repeats lie within what receivers remember",
        "streams/outbox/relay.py",
        "return number - (self.lowest or number) < SPREAD",
        "return True",
        RELAY,
    ),
    Guard(
        "rows of a lost future are not sent",
        "streams/outbox/relay.py",
        " for row in here if row.number <= self._claimed or row.lineage == self._lineage]",
        " for row in here]",
        RELAY,
    ),
    Guard(
        "a row that was handed over under an earlier claim is not handed over again",
        "streams/outbox/relay.py",
        "            if self._take_over_row(row):",
        "            if False:",
        HANDED,
    ),
    Guard(
        "a dead letter that no message and no store can hold is cut",
        "streams/outbox/sizes.py",
        "    if size(key, value, [*its, *ours]) <= most:",
        "    if True:",
        (f"{E}test_cut_letters.py",),
    ),
    Guard(
        "dead rows do not pile up without a bound",
        "streams/outbox/relay.py",
        "        if self._dead_bytes <= MOST_DEAD:",
        "        if True:",
        (f"{E}test_dead_bound.py",),
    ),
    Guard(
        "what arrived is recorded before the group takes a partition",
        "streams/engine/worker.py",
        "        self._commits.record([owner for owner in owners if owner.shard.reported])",
        "        return",
        HAND_OVER,
    ),
    Guard(
        "reports are waited for before the group takes a partition",
        "streams/engine/worker.py",
        "            self._parts.producer.flush(FLUSH)\n        self._commits.record(",
        "            break\n        self._commits.record(",
        HAND_OVER,
    ),
    Guard(
        "a clean stop claims lost partitions once more",
        "streams/engine/worker.py",
        "        self._claims.claim_once_more(self._relay.unrecorded(), clock.monotonic())",
        "        return",
        HAND_OVER,
    ),
    Guard(
        "a row of another lineage was not handed over",
        "streams/outbox/handed.py",
        "        if before.reports.delivered.get(number) == known:",
        "        if number in before.reports.delivered:",
        HANDED,
    ),
    Guard(
        "the reports of a commit that failed are not lost",
        "streams/outbox/handed.py",
        "for reports in (last._taken, last._reports):",
        "for reports in (last._reports,):",
        HANDED,
    ),
    Guard(
        "late reports of rows that went back change nothing",
        "streams/outbox/handed.py",
        "        ended = {number: row.lineage or row.id for number in numbers "
        "if (row := out.pop(number, None)) is not None}\n",
        '        ended = dict.fromkeys(numbers, "")\n'
        "        for number in numbers:\n            out.pop(number, None)\n",
        RELAY,
    ),
    Guard(
        "a row of a lane that was lost and taken again is not handed over again",
        "streams/outbox/lane_run.py",
        "        self.waiting.extend(row for row in rows if not self._take_over_row(row))\n",
        "        self.waiting.extend(rows)\n",
        ("tests/unit/leased/test_lost_lanes.py",),
    ),
    Guard(
        "a lane that was lost is leased for longer the next time",
        "streams/outbox/lane_relay.py",
        "        lane.lease.lost()\n",
        "",
        ("tests/unit/leased/test_slow_lanes.py",),
    ),
    Guard(
        "rows without order are leased for longer after a batch that outlasted its lease",
        "streams/outbox/lane_lease.py",
        "        if took >= self.seconds:\n",
        "        if False:\n",
        ("tests/unit/leased/test_slow_lanes.py",),
    ),
    Guard(
        "the lease of a lane is as the file says again when its batches take less",
        "streams/outbox/lane_lease.py",
        "        elif 4 * took < self.seconds:\n",
        "        elif False:\n",
        ("tests/unit/leased/test_slow_lanes.py",),
    ),
    Guard(
        "marks that fail while the dispatcher stops are made again",
        "streams/outbox/lane_relay.py",
        "            self._unavailable(lane, error)\n            lane.unmarked = ",
        "            if self.closing:\n                return self._forget(lane)\n"
        "            self._unavailable(lane, error)\n            lane.unmarked = ",
        ("tests/unit/leased/test_lost_lanes.py",),
    ),
    Guard(
        "the loop makes no row that is larger than a message",
        "streams/outbox/row_loop.py",
        "if len(value) + len(key) > most:",
        NEVER,
        ("tests/unit/engine/test_same_rows.py",),
    ),
    Guard(
        "the loop leaves results of another form to the careful way",
        "streams/outbox/row_loop.py",
        "if event.final is not None or event.revision != 1:",
        NEVER,
        ("tests/unit/engine/test_same_rows.py",),
    ),
    Guard(
        "the loop leaves a retried result of one output to the careful way",
        "streams/outbox/row_loop.py",
        "if event.outputs is None or event.again is not None:",
        "if event.outputs is None:",
        ("tests/unit/engine/test_same_rows.py",),
    ),
    Guard(
        "the loop numbers the rows of a result again that it left half made",
        "streams/outbox/row_loop.py",
        "    following = number\nreturn",
        "return",
        ("tests/unit/engine/test_same_rows.py",),
    ),
    Guard(
        "the loop leaves messages that are CloudEvents to the careful way",
        "streams/outbox/row_loop.py",
        "if envelopes[event.output][0] is not None:",
        NEVER,
        ("tests/unit/engine/test_same_rows.py",),
    ),
    Guard(
        "each claim numbers its rows in a shard of its own",
        "streams/outbox/rows.py",
        "self._claim = RowsOfClaim(lineage, ",
        'self._claim = RowsOfClaim("", ',
        (f"{E}test_rows.py", f"{E}test_outbox.py"),
    ),
)
