"""Guards of the rebuild of windows."""

from tests.mutation.guard import Guard

FOLD, KNOWN = "streams/operations/rebuild_windows.py", "streams/operations/rebuild_known.py"
PLAN, WRITE = "streams/operations/rebuild_plan.py", "streams/operations/rebuild_write.py"
TOLD = ("tests/unit/engine/test_rebuild_windows_told.py",)
ANY = ("tests/unit/engine/test_rebuild_windows.py",)

GUARDS = (
    Guard(
        "rebuild: silence moves the watermark where it did",
        FOLD,
        "            self._windows.event.silent(watermark, at)\n",
        "",
        TOLD,
    ),
    Guard(
        "rebuild: silence after the last record, too",
        FOLD,
        "        self._fall_silent(offset)\n        return",
        "        return",
        TOLD,
    ),
    Guard(
        "rebuild: a record that `where` leaves out moves the watermark",
        FOLD,
        "        return self._intake.left_out",
        "        return ()",
        TOLD,
    ),
    Guard(
        "rebuild: so does a record that was refused after its time was read",
        FOLD,
        "        if record.offset() in self._known.timed:",
        "        if False:",
        TOLD,
    ),
    Guard(
        "rebuild: a record that was refused before its time was read does not",
        KNOWN,
        "                if _moved_the_watermark(named):",
        "                if True:",
        TOLD,
    ),
    Guard(
        "rebuild: a record that was accepted is not too far ahead now",
        FOLD,
        "super()._ahead(time, self.latest)",
        "super()._ahead(time, now)",
        TOLD,
    ),
    Guard(
        "rebuild: every window that the watermark has passed is decided",
        FOLD,
        "            windows.expire(self._intake.now, SLICE)\n",
        "            break\n",
        TOLD,
    ),
    Guard(
        "rebuild: a window ends with a record only by the rebuild's own judgement",
        FOLD,
        '        """Nothing: `Rebuild` decides it."""',
        "        super().end(key, state, until, now)",
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
        "            return (event.window.end, first) < known.closed.get(place, (-1, -1))",
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
    Guard(
        "rebuild: a window that began before --from ends at its own last record",
        KNOWN,
        "            group = name(start, group)\n",
        "",
        TOLD,
    ),
    Guard(
        "rebuild: windows with several results are refused",
        "streams/operations/rebuild.py",
        '    if window.late in ("new", "amend"):',
        "    if False:",
        TOLD,
    ),
)
