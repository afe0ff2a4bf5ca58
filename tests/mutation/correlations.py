"""Guards of correlations."""

from tests.mutation.guard import Guard

ENGINE, FINISH = ("tests/unit/engine/test_correlate.py",), ("tests/unit/engine/test_windows_finish.py",)
GROUPS = "streams/correlation/groups.py"
ENDED = "streams/correlation/ended.py"
COLD = "tests/unit/engine/test_cold_correlations.py::test_"
COLD_GROUPS = "streams/windows/cold/correlations.py"
BY_TIME, BY_TIME_TESTS = "streams/windows/correlated.py", ("tests/unit/engine/test_correlate_by_time.py",)

GUARDS = (
    Guard(
        "correlate: a key whose group ended opens no new group",
        ENDED,
        "        if not self.ids.holds(_identity(key), now):\n",
        "        if True:\n",
        ENGINE,
    ),
    Guard(
        "correlate: ended keys are in the changelog",
        "streams/ownership/partition_groups.py",
        "        return known_ids(self.newest) or (dedupe.seen if dedupe is not None else None)\n",
        "        return dedupe.seen if dedupe is not None else None\n",
        ENGINE,
    ),
    Guard(
        "correlate: an absence is not said before what waited at the claim was read",
        GROUPS,
        "        return super().next_due() if self.caught_up else inf\n",
        "        return super().next_due()\n",
        ENGINE,
    ),
    Guard(
        "correlate: a new claim must catch up again",
        GROUPS,
        "        self._high, self.caught_up = high, False\n",
        "        self._high, self.caught_up = high, True\n",
        ENGINE,
    ),
    Guard(
        "correlate: a group that timed out is remembered as well",
        GROUPS,
        "        self.ended.note(key, now)\n",
        '        if reason != "timeout":\n            self.ended.note(key, now)\n',
        ENGINE,
    ),
    Guard(
        "correlate: a leg that keeps all records is missing until it has one",
        "streams/aggregation/ending.py",
        "            if many := len(bags[index]):\n",
        "            if (many := len(bags[index])) >= 0:\n",
        ("tests/unit/correlation/test_document.py", "tests/unit/engine/test_correlate.py"),
    ),
    Guard(
        "correlate by time: legs may be only so far apart",
        BY_TIME,
        "            if least <= time <= most:\n",
        "            if True:\n",
        BY_TIME_TESTS,
    ),
    Guard(
        "correlate by time: a group that the watermark has ended takes no record",
        BY_TIME,
        "        self.close_as(group, self.event.closed_by(closes), now)\n        return None\n",
        "        return state\n",
        BY_TIME_TESTS,
    ),
    Guard(
        "correlate by time: the first leg of a key is late when its own end has passed",
        BY_TIME,
        "        if time + self._after >= self.event.watermark:\n",
        "        if time + self._after >= 0:\n",
        BY_TIME_TESTS,
    ),
    Guard(
        "correlate by time: a record at the very end is in time",
        BY_TIME,
        "        return Span(state[EARLIEST], due, due + 1)",
        "        return Span(state[EARLIEST], due, due)",
        BY_TIME_TESTS,
    ),
    Guard(
        "correlate by time: an earlier record makes its group end earlier",
        BY_TIME,
        "        if self.states.get(group) is state and not self.since_last and state[EARLIEST] < before[0]:\n",
        "        if False:\n",
        BY_TIME_TESTS,
    ),
    Guard(
        "correlate by time: an ended key is remembered",
        BY_TIME,
        "        self.ended.note(key_of(key), now)\n",
        "        pass\n",
        BY_TIME_TESTS,
    ),
    Guard(
        "correlate: a key that ended under the earlier rule is ended for the new one",
        "streams/correlation/groups.py",
        "            self.ended = newest.ended\n",
        "            pass\n",
        FINISH,
    ),
    Guard(
        "correlate by time: a key that ended under the earlier rule is ended for the new one",
        BY_TIME,
        "            self.ended = newest.ended\n",
        "            pass\n",
        FINISH,
    ),
    Guard(
        "silence: the end is looked for again before silence is used",
        "streams/engine/event_clock.py",
        "                if any(groups.asks() for groups in awaits):\n",
        "                if False:\n",
        ("tests/unit/engine/test_event_clock.py",),
    ),
    Guard(
        "silence: an answer of a broker is as old as its question",
        "streams/engine/event_clock.py",
        "time - (now - self._asked.get(place, -inf))",
        "time",
        ("tests/unit/engine/test_event_clock.py",),
    ),
    Guard(
        "silence: what a window's owner was told of the end before is no silence",
        "streams/windows/closing.py",
        "        if self.end_asked < self._silence_due():\n",
        "        if self._now < self._silence_due():\n",
        ("tests/unit/windows/test_times.py",),
    ),
    Guard(
        "silence: a partition is called idle after a broker was asked for its end once more",
        "streams/windows/origins.py",
        "        if self._at_end and self._asked >= self._idle_from():\n",
        "        if self._at_end and self._now >= self._idle_from():\n",
        ("tests/unit/engine/test_origins.py",),
    ),
    Guard(
        "silence: an idle partition lets the watermark go to the time of its last mark and no further",
        "streams/windows/merged.py",
        "            limits[name] = max(time, written) if idle else time\n",
        "            limits |= {} if idle else {name: time}\n",
        ("tests/unit/engine/test_origins.py",),
    ),
    Guard(
        "silence: what an earlier claim left of its marks says behind",
        "streams/outbox/relay.py",
        "        return row if row.lineage == self._lineage else withdrawn(row)\n",
        "        return row\n",
        ("tests/unit/engine/test_origins.py",),
    ),
    Guard(
        "clocks: the owner's time follows a store whose clock is set back",
        "streams/ownership/store_clock.py",
        "            self.last, self.set_back = store_time, True\n",
        "            pass\n",
        ("tests/unit/engine/test_deadlines.py",),
    ),
    Guard(
        "clocks: a claim sets times that are ahead back",
        "streams/ownership/claiming/takeover.py",
        "        owner.set_back()\n        owner.rows.begin",
        "        owner.rows.begin",
        ("tests/unit/engine/test_deadlines.py",),
    ),
    Guard(
        "cold correlations: no row is read for a timeout before the owner has caught up",
        GROUPS,
        "        return self.caught_up\n",
        "        return True\n",
        (f"{COLD}no_leg_of_a_cold_group_is_absent_while_it_waits_to_be_read",),
    ),
    Guard(
        "cold correlations: those by event time are rows of the store",
        "streams/windowers.py",
        '"correlated:CorrelatedByTime", slots=2, pageable=True)',
        '"correlated:CorrelatedByTime", slots=2)',
        (f"{COLD}a_takeover_reads_the_hot_groups_alone",),
    ),
    Guard(
        "cold correlations: those by the worker's clock are rows of the store",
        "streams/agent/agent.py",
        "        if rule is None or self.times is not None",
        "        if rule is None or (rule.correlation and not rule.window) or self.times is not None",
        (f"{COLD}a_takeover_reads_the_hot_groups_alone",),
    ),
    Guard(
        "cold correlations: the store is asked for the group of a key",
        "streams/windows/cold/closes.py",
        "        return self.of_key(key)\n",
        "        return ()\n",
        (f"{COLD}a_leg_finds_its_cold_group_and_the_key_stays_ended",),
    ),
    Guard(
        "cold correlations: another timeout counts for cold groups",
        COLD_GROUPS,
        "*super().ends, self.groups.window.size,",
        "*super().ends,",
        (f"{COLD}another_time_counts_for_cold_groups",),
    ),
    Guard(
        "cold correlations: another begin of the timeout counts for cold groups",
        COLD_GROUPS,
        ", float(self.groups.since_last)",
        "",
        (f"{COLD}another_time_counts_for_cold_groups",),
    ),
)
