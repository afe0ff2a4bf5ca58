"""Guards of late records that count: `late: {new}` and `late: {amend}`."""

from tests.mutation.guard import Guard

SAME = ("tests/unit/windows/test_same_late.py::test_any_cut_and_any_crash_give_the_results_of_the_oracle",)
PURE = ("tests/unit/windows/test_late.py",)
ENGINE = ("tests/unit/engine/test_late.py",)
FOLD = ("tests/unit/windows/test_fold.py",)

GUARDS = (
    Guard(
        "late: a revised result has an id of its own",
        "streams/aggregation/events.py",
        "        if window.revision > 1:\n",
        "        if False:\n",
        ENGINE,
    ),
    Guard(
        "late: the changelog tells which windows have closed",
        "streams/aggregation/durable/changelog.py",
        "            closed=_chosen(groups.closed, states),\n",
        "",
        SAME,
    ),
    Guard(
        "late: so does the compacted one",
        "streams/aggregation/durable/changelog.py",
        "                part.closed = _chosen(groups.closed, names)\n",
        "",
        SAME,
    ),
    Guard(
        "late: so do the halves of an entry that is too large",
        "streams/aggregation/durable/entry.py",
        "    closed, past = _only(entry.closed, keys), _only(entry.past, keys)\n",
        "    closed, past = {}, _only(entry.past, keys)\n",
        PURE,
    ),
    Guard(
        "late: so do both halves of one large group",
        "streams/aggregation/durable/entry.py",
        "    return [first, ChangelogEntry(0, entry.at, entry.states, back, {}, {}, {}, closed=closed, past=past)]\n",
        "    return [first, ChangelogEntry(0, entry.at, entry.states, back, {}, {}, {}, past=past)]\n",
        PURE,
    ),
    Guard(
        "late: a window that is closed and waits for its result does not take the late record before it",
        "streams/windows/groups.py",
        "            self._close_key(group, now)\n",
        "            pass\n",
        SAME,
    ),
    Guard(
        "late: at_most knows the windows that are opened while results of an earlier amend stay",
        "streams/windows/closing.py",
        "        if self.after.keep or self.closed:\n",
        "        if self.after.keep:\n",
        ENGINE,
    ),
    Guard(
        "late: a record that is later than amend is a dead letter",
        "streams/windows/tumbling_groups.py",
        "        if closes + self.after.keep > self.event.watermark:\n",
        "        if self.after.keep:\n",
        ENGINE,
    ),
    Guard(
        "late: the time to gather begins with the first record",
        "streams/windows/closed.py",
        "        if since is None:\n            self._groups.closed",
        "        if True:\n            self._groups.closed",
        SAME,
    ),
    Guard(
        "late: sessions of late records are not open sessions",
        "streams/windows/sessions.py",
        "        return self._gathering if group in self.closed else self.sessions\n",
        "        return self.sessions\n",
        SAME,
    ),
    Guard(
        "late: at_most does not end what has had its result",
        "streams/windows/closed.py",
        "states[group][FIRST] == first and group not in closed:\n                return group\n",
        "states[group][FIRST] == first:\n                return group\n",
        SAME,
    ),
    Guard(
        "late: the compiled loop leaves records of a window that at_most cut to the careful way",
        "streams/windows/placing.py",
        " or start in windows.near.cut or",
        " or",
        SAME,
    ),
    Guard(
        "late: a result holds what the group held",
        "streams/windows/closed.py",
        "[bag.copy() for bag in groups.bags.get(group, ())]",
        "groups.bags.get(group, [])",
        PURE,
    ),
    Guard(
        "late: a group ends without a result that was sent before",
        "streams/windows/closed.py",
        "        if self._groups.closed[group][1] is None:\n",
        "        if False:\n",
        PURE,
    ),
    Guard(
        "late: a converted group of a closed window stays one",
        "streams/aggregation/converting.py",
        "            new.closed[key] = closed\n",
        "            pass\n",
        PURE,
    ),
    Guard(
        "late: a person who fires a group gets no result twice",
        "streams/windows/closing.py",
        " if group not in covered]\n",
        "]\n",
        PURE,
    ),
    Guard(
        "late: room is made by groups of late records, too",
        "streams/windows/closing.py",
        '            self.fire(next(iter(self.closed)), "limit", now)\n',
        "            pass\n",
        ENGINE,
    ),
    Guard(
        "late: what is noted of windows that ended is forgotten",
        "streams/windows/closed.py",
        "        if len(self._opened_first) > 2 * len(self._groups.states) + STALE:\n",
        "        if False:\n",
        PURE,
    ),
    Guard(
        "windows: what many windows send at one moment is cut by bytes",
        "streams/windows/closing.py",
        "        while fired < most and self.sent <= enough:\n            before",
        "        while fired < most:\n            before",
        PURE,
    ),
    Guard(
        "hopping: so is what panes send",
        "streams/windows/hopping.py",
        "        self.sent += sum(self.states[pane][BYTES] for pane in members)\n",
        "",
        PURE,
    ),
    Guard(
        "windows: the compiled loop leaves a record that finds no room to the careful way",
        "streams/windows/placing.py",
        "if state is None and (len(key) > longest or refuses(groups)):",
        "if state is None and len(key) > longest:",
        FOLD,
    ),
    Guard(
        "windows: the compiled loop adds nothing to a full group",
        "streams/windows/placing.py",
        "    return 0 if windows.full or next_end",
        "    return 0 if next_end",
        FOLD,
    ),
    Guard(
        "no other window makes room in a full group of a revised window",
        "streams/aggregation/accept.py",
        'groups.deny(record, f"max_items',
        'groups.relieve(record, now, f"max_items',
        ("tests/unit/windows/test_late.py",),
    ),
    Guard(
        "no other window makes room for bytes in a full group of a revised window",
        "streams/aggregation/groups.py",
        'return self.deny(record, f"max_bytes',
        'return self.relieve(record, now, f"max_bytes',
        ("tests/unit/windows/test_late.py",),
    ),
)
