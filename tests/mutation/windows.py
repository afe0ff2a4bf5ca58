"""Guards of event-time windows."""

from tests.mutation.guard import NEVER, Guard

ENGINE = ("tests/unit/engine/test_windows.py",)
PURE = ("tests/unit/windows/test_same_windows.py",)
SESSIONS = ("tests/unit/windows/test_same_sessions.py::test_any_cut_and_any_crash_give_the_sessions_of_the_oracle",)
SAME = (
    "tests/unit/windows/test_same_as_kafka_streams.py::test_the_windows_and_the_late_records_are_those_of_kafka_streams"
)
KAFKA_STREAMS = (f"{SAME}[session]",)
ENDS = ("tests/unit/kafka/test_ends.py",)
ORIGINS = ("tests/unit/engine/test_origins.py",)

GUARDS = (
    Guard(
        "windows: the watermark stands in the entry of the state that it judged",
        "streams/windows/groups.py",
        "        if not self.event.changed and not whole:\n            return None\n",
        "        if not whole:\n            return None\n",
        ENGINE,
    ),
    Guard(
        "windows: the compacted log holds the watermark",
        "streams/aggregation/changelog.py",
        "        entry.clock = self.groups.clock(whole=True)\n",
        "",
        PURE,
    ),
    Guard(
        "windows: a record that where leaves out moves the watermark in its place",
        "streams/ownership/windowed.py",
        "        while left_out and run and left_out[0].offset() < run[-1].offset():\n",
        "        while False:\n",
        ENGINE,
    ),
    Guard(
        "windows: silence needs the end of the partition",
        "streams/engine/event_clock.py",
        "self._gauge.ended(*place) >= owner.offset and ",
        "",
        ENGINE,
    ),
    Guard(
        "windows: a record in hand is no silence",
        "streams/engine/event_clock.py",
        " and not _holds(batch, place)",
        "",
        ENGINE,
    ),
    Guard(
        "windows: a paused intake is no silence",
        "streams/engine/event_clock.py",
        " and self._claims.intake.reads(place)",
        "",
        ENGINE,
    ),
    Guard(
        "windows: no clock closes before the backlog of the claim was read",
        "streams/windows/groups.py",
        "            self.caught_up = waited or (read and self.event.ended_since(self._claimed))\n",
        "            self.caught_up = True\n",
        ENGINE,
    ),
    Guard(
        "windows: silence moves the watermark to the close of an open window and no further",
        "streams/windows/groups.py",
        "        self.event.silent(to, self._next_offset)\n",
        "        self.event.silent(max(to, round(over)), self._next_offset)\n",
        PURE,
    ),
    Guard(
        "windows: silence counts from the last record, over claims",
        "streams/windows/clock.py",
        "            self.watermark, self.silent_from, self.silent_to, self.silent_at, self.seen, _ = state\n",
        "            self.watermark, self.silent_from, self.silent_to, self.silent_at, _, _ = state\n",
        ENGINE,
    ),
    Guard(
        "windows: a watermark of other times is not taken over",
        "streams/windows/clock.py",
        "        if state[-1] == self.source:\n",
        "        if True:\n",
        ENGINE,
    ),
    Guard(
        "windows: a changed rule goes on with the watermark",
        "streams/ownership/owner.py",
        "            windowed.inherit(self.windows, self._changelog.older.values())\n",
        "            pass\n",
        ENGINE,
    ),
    Guard(
        "windows: a record far ahead of the clock moves no watermark",
        "streams/windows/groups.py",
        "        if self._ahead(time, now):\n",
        f"        {NEVER}\n",
        ENGINE,
    ),
    Guard(
        "windows: the hot loop takes no record while a closed window waits",
        "streams/windows/fold.py",
        "    return 0 if next_close <= windows.event.watermark else ",
        "    return ",
        ("tests/unit/windows/test_fold.py",),
    ),
    Guard(
        "windows: fractions of a millisecond do not end the owner",
        "streams/windows/groups.py",
        "        to, ended = round(self.next_close()), []",
        "        to, ended = -1, []",
        ("tests/unit/windows/test_kept.py",),
    ),
    Guard(
        "windows: a seek forgets the end of the partition",
        "connectors/kafka/consumer.py",
        "        self._forget_end((topic, number))\n",
        "",
        ENDS,
    ),
    Guard(
        "windows: after an outage of all brokers the end is asked again",
        "connectors/kafka/consumer.py",
        "            self._doubted.update(self._ends)\n",
        "            pass\n",
        ENDS,
    ),
    Guard(
        "windows: a time mark stands behind the records of its commit",
        "streams/handlers/rekey.py",
        "        ordered = sorted(items, key=_stands_last)\n",
        "        ordered = items\n",
        ORIGINS,
    ),
    Guard(
        "windows: an origin that said nothing holds the watermark back",
        "streams/windows/merged.py",
        "                self._note(name, (NEVER, UNKNOWN, 0))\n",
        "                pass\n",
        ORIGINS,
    ),
    Guard(
        "windows: a record ends the idleness of its origin",
        "streams/windows/merged.py",
        "BEHIND if state in (UNKNOWN, IDLE) else state, said))",
        "BEHIND if state == UNKNOWN else state, said))",
        ORIGINS,
    ),
    Guard(
        "windows: the word that an origin is idle counts while it is repeated",
        "streams/windows/merged.py",
        "newest - each[2] > self._fresh",
        "False",
        ORIGINS,
    ),
    Guard(
        "windows: silence asks whether the word of the origins is fresh",
        "streams/windows/merged.py",
        " and said >= since",
        "",
        ORIGINS,
    ),
    Guard(
        "windows: the watermark is the least over the origins",
        "streams/windows/merged.py",
        "        least = min((time for time, _, _ in self._active().values()), default=NEVER)\n        if least <=",
        "        least = max((time for time, _, _ in self._active().values()), default=NEVER)\n        if least <=",
        ORIGINS,
    ),
    Guard(
        "windows: the entry holds the origins that changed",
        "streams/aggregation/changelog.py",
        "            origins=groups.origins(whole=False),\n",
        "",
        ORIGINS,
    ),
    Guard(
        "windows: the compacted log holds the origins",
        "streams/aggregation/changelog.py",
        "        entry.origins = self.groups.origins(whole=True)\n",
        "",
        ORIGINS,
    ),
    Guard(
        "windows: time marks go to every partition",
        "streams/outbox/rows.py",
        "            for place in range(self._facts.partitions(topic))\n",
        "            for place in range(1)\n",
        ORIGINS,
    ),
    Guard(
        "windows: other agents do not see time marks",
        "streams/ownership/owner.py",
        "                fresh = without_marks(fresh)\n",
        "                pass\n",
        ORIGINS,
    ),
    Guard(
        "sessions: a merge ends the other session in the same entry",
        "streams/windows/sessions.py",
        "            other, bags = self.drop(each)\n",
        "            other, bags = self.drop(each)\n            del self.touched[each]\n",
        SESSIONS,
    ),
    Guard(
        "sessions: a closed session that waits for its result takes no record",
        "streams/windows/sessions.py",
        " and closes > self.event.watermark:\n",
        ":\n",
        SESSIONS,
    ),
    Guard(
        "sessions: a record exactly one gap after the last one belongs to the session",
        "streams/windows/sessions.py",
        "<= time <= state[END] + gap",
        "<= time < state[END] + gap",
        KAFKA_STREAMS,
    ),
    Guard(
        "sessions: at_most counts from the last record",
        "streams/windows/sessions.py",
        "            elif state[SEEN] > seen:\n",
        "            elif False:\n",
        SESSIONS,
    ),
    Guard(
        "sessions: the merged session keeps the lower first offset",
        "streams/windows/sessions.py",
        "        return sorted(found, key=lambda group: states[group][FIRST]) if len(found) > 1 else found\n",
        "        return found[::-1]\n",
        SESSIONS,
    ),
    Guard(
        "sessions: first and last go by offsets in a merge",
        "streams/aggregation/merging.py",
        "            if other[slot + 1] > state[slot + 1]:\n",
        "            if True:\n",
        SESSIONS,
    ),
    Guard(
        "sessions: a conversion keeps the times of a session",
        "streams/aggregation/converting.py",
        ", *state[self._end :]]",
        ", *(0 for _ in state[self._end :])]",
        ("tests/unit/windows/test_kept.py",),
    ),
)
