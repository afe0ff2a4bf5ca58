"""Guards of correlations."""

from tests.mutation.guard import Guard

ENGINE = ("tests/unit/engine/test_correlate.py",)
GROUPS = "streams/correlation/groups.py"
ENDED = "streams/correlation/ended.py"

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
)
