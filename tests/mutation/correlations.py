"""Guards of correlations."""

from tests.mutation.guard import Guard

ENGINE = ("tests/unit/engine/test_correlate.py",)
GROUPS = "streams/correlation/groups.py"
ENDED = "streams/correlation/ended.py"
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
        "streams/ownership/windowed.py",
        "        return groups.ended.ids\n",
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
        "        self._end(group, self.event.closed_by(closes), now)\n        return None\n",
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
        "        if self.states.get(group) is state and not self._since_last and state[EARLIEST] < before[0]:\n",
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
        "silence: a process that stood still looks for the end of its partition again",
        "streams/engine/event_clock.py",
        "                if at_end and stood_still and place not in self._asked:\n",
        "                if False:\n",
        ("tests/unit/engine/test_event_clock.py",),
    ),
    Guard(
        "silence: an end that was looked for again holds for one turn",
        "streams/engine/event_clock.py",
        "                if at_end and stood_still and place not in self._asked:\n",
        "                if at_end and stood_still:\n",
        ("tests/unit/engine/test_event_clock.py",),
    ),
)
