"""Guards of the rebuild of windows."""

from tests.mutation.guard import Guard

FOLD, KNOWN = "streams/windows/replayed.py", "streams/operations/rebuilding/rebuild_known.py"
PLAN, WRITE = "streams/operations/rebuilding/rebuild_plan.py", "streams/operations/rebuilding/rebuild_write.py"
TOLD = ("tests/unit/engine/test_rebuild_windows_told.py",)
ANY = ("tests/unit/engine/test_rebuild_windows.py",)

GUARDS = (
    Guard(
        "rebuild: a group may have ended behind its early result",
        "streams/shadow/witness.py",
        "return first in self._open or offset <= self._reached.get(first, -1)",
        "return first in self.begins",
        ("tests/unit/engine/test_rebuild_refused.py",),
    ),
    Guard(
        "rebuild: rows are numbered above those that were sent before, also if none is left to send",
        WRITE,
        "    claim = _counted_on(store, claim, number)\n",
        "",
        ("tests/unit/shadow/test_early.py",),
    ),
    Guard(
        "rebuild: rows that an unfinished run left in the store are removed",
        WRITE,
        "    while rows := store.pending(claim.partition, 0, COMMIT_ROWS):\n",
        "    while rows := ():\n",
        ("tests/unit/engine/test_rebuild.py",),
        "holds_a_number",
    ),
    Guard(
        "rebuild: a refusal says that a group may have ended without a result",
        PLAN,
        '            ended = "" if leaves_traces(agent) else ',
        '            ended = "" if agent else ',
        ("tests/unit/shadow/test_early.py",),
    ),
    Guard(
        "a shadow compares no partition in which groups of an earlier rule finish",
        "streams/operations/replaying/shadowing.py",
        "            if any(generation.policy == FINISH for generation in view.claim.source.older):\n",
        "            if False:\n",
        ("tests/unit/engine/test_windows_finish.py",),
    ),
    Guard(
        "a shadow says how many results another version of the rule made",
        "streams/operations/replaying/shadowing.py",
        "        if self._earlier:\n",
        "        if False:\n",
        ("tests/unit/engine/test_windows_finish.py",),
    ),
    Guard(
        "rebuild: silence moves the watermark where it did",
        FOLD,
        "            self.windows.event.silent(to, at)\n",
        "",
        TOLD,
    ),
    Guard(
        "rebuild: silence after the last record, too",
        "streams/shadow/fold.py",
        "        self._pass_stops(witness.end)\n",
        "",
        TOLD,
    ),
    Guard(
        "rebuild: a record that was accepted is not too far ahead now",
        FOLD,
        "            self.windows.believed = now\n",
        "            pass\n",
        TOLD,
    ),
    Guard(
        "rebuild: every window that the watermark has passed is decided",
        FOLD,
        "            windows.expire(now, SLICE)\n",
        "            break\n",
        TOLD,
    ),
    Guard(
        "rebuild: a window that has a result is not sent again",
        "streams/operations/rebuilding/rebuild_replayed.py",
        "        live = self._open.pop(fire.number, None)\n",
        "        live = None\n",
        TOLD,
    ),
    Guard(
        "rebuild: a window whose result is published has ended, whatever closed it",
        "streams/shadow/fold.py",
        "            self._end_published()\n",
        "            pass\n",
        ANY,
    ),
    Guard(
        "rebuild: the watermark is written with the state",
        WRITE,
        "    if (clock := groups.clock(whole=True)) is not None:",
        "    if (clock := None) is not None:",
        TOLD,
    ),
    Guard(
        "rebuild: the offset at which the clock closed a window was read",
        KNOWN,
        "            self.end = max(self.end, rests[0])",
        "            pass",
        TOLD,
    ),
    Guard(
        "rebuild: a window without a result before a later one is a gap",
        PLAN,
        "            return (event.window.end, in_order(number)[0]) < known.closed.get(place, (-1, -1))",
        "            pass",
        TOLD,
    ),
    Guard(
        "rebuild: late records that are only counted are known only from the start",
        PLAN,
        "known.begin > 0 and skips_late",
        "False",
        TOLD,
    ),
)
