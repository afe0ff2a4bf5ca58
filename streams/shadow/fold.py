"""The input of one partition under a rule, with its state in memory, judged against what was published. Pure.

The product's own aggregation makes the groups. What the records do not decide is taken from the published
results, or from the bounds that they set to the owner's clock:

- For the same rule (an audit), and where only the contents of results change, a group that ended by a timeout, by a
  limit or by hand ends behind the record that its published result names. Silence moves the watermark where the results
  say that it did.
- Where the rule ends groups otherwise, a timeout is decided from the bounds. If they leave it open, the record's own
  timestamp decides, and the key's groups are uncertain until a record comes before which any group of the key has
  certainly timed out.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from math import inf
from typing import Protocol

import msgspec

from sluicegate.streams.agent import Agent, Aggregation
from sluicegate.streams.aggregation.accept import accept
from sluicegate.streams.aggregation.completion import completion, deadline_of
from sluicegate.streams.aggregation.events import DROPPED, Decided, Fire, Refused
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.layout import COUNT, FIRST, LAST, GroupState
from sluicegate.streams.aggregation.seen import KnownIds
from sluicegate.streams.contracts.ids import in_order
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.errors import ConfigurationError, DecodeWaits, Halt
from sluicegate.streams.outbox.rows import timestamp
from sluicegate.streams.reading.addressed import for_us
from sluicegate.streams.reading.dedupe import DuplicateFilter, IdRule
from sluicegate.streams.reading.receive import ReceivedShards
from sluicegate.streams.shadow.clock import MILLISECOND, ClockBounds, OwnerClock
from sluicegate.streams.shadow.deadlines import Deadlines, finite
from sluicegate.streams.shadow.judge import OPEN, OpenExtent
from sluicegate.streams.shadow.published import PublishedResult
from sluicegate.streams.shadow.verdicts import Extent, Shadowed
from sluicegate.streams.shadow.witness import (
    Codecs,
    LiveGroup,
    Witness,
    begins,
    crossing,
    cuts,
    judge_start,
    leaves_traces,
    leaving,
    loses_records,
    moments,
    moved_the_watermark,
    outside,
    same_ends,
    same_key,
)
from sluicegate.streams.windows.opening import known_ids
from sluicegate.streams.windows.replayed import ReplayedGroups
from sluicegate.streams.windows.tumbling import key_of

TURN = 1.0  # seconds: a deadline so shortly before the last commit may have been too late for it
UNTOLD = "unknown"  # the reason of a group of which nothing tells how it ended
CUT_OFF = "replay"  # the reason of a group that the range cuts off
CUT, SILENCE, MOMENT, BEGIN = 0, 1, 2, 3  # what happens before the record at an offset, in this order


class FoldReceiver(Protocol):
    """What becomes of what the rule decides: ShadowJudge compares it, Corrections makes outputs of it."""

    found: Shadowed

    def result(self, fire: Fire, certain: bool) -> None: ...
    def early(self, live: PublishedResult, why: str) -> None: ...
    def letter(self, refused: Refused) -> None: ...
    def witnessed_letter(self, offset: int) -> None: ...
    def group(self, key: bytes, new: OpenExtent | None, live: OpenExtent | None, certain: bool = True) -> None: ...
    def finish(self, begin: int, end: int, unsure: Callable[[PublishedResult], bool]) -> Shadowed: ...


class ShadowFold:
    """`rule` is judged against results that were published under `live`. `whole`: only the records of published groups
    that end within the range are folded, and a group that the range cuts off ends with reason `replay`."""

    def __init__(
        self, rule: Agent, live: Agent, codecs: Codecs, witness: Witness, judge: FoldReceiver, whole: bool = False
    ) -> None:
        published, comparable = witness.published, same_key(rule, live)
        self._agent, self._witness, self._published = rule, witness, published
        self._witnessed, self._traces = same_ends(rule, live), leaves_traces(rule)
        self._audits, self._whole = rule == live and not whole, whole
        self._judge = judge
        self._judge.found.comparable = comparable
        self._limits = rule.aggregation or Aggregation()
        self._clock = OwnerClock(moments(witness), witness.now)
        self._now = self._clock.at(witness.begin)
        self._replayed = ReplayedGroups(rule, codecs.reads, witness.now, witness.origins)
        self._groups, self._windowed = self._replayed.groups, self._replayed.windows is not None
        window = live.aggregation.window if live.aggregation else None
        self._together = window is not None and window.windower.together
        self._senders = ReceivedShards(published.partition.topic)
        self._dedupe = DuplicateFilter(IdRule(rule, codecs.reads)) if rule.dedupe else None
        ends = completion(self._limits)
        self._timed = ends.timed and not (self._audits and self._traces)
        self._deadlines = Deadlines(ends, self._limits.deadline)
        judge_start(rule, witness, self._clock.span)
        late = not witness.whole and (live.start != "earliest" or not leaves_traces(live))
        self._begun: set[bytes] | None = set() if late and comparable else None
        self._passing = crossing(witness) if comparable and not self._windowed else set()
        self._unfinished = leaving(witness) if whole else frozenset()
        self._latest = 0.0  # of the moments at which a restored group took records
        self._over: set[bytes] = set()  # keys whose published group goes on behind the range
        self._revised, self._ends = published.revised(), published.ends(self._windowed)
        self._live_begins = begins(witness)
        self._unsure: dict[bytes, int] = {}  # by key: the first record of the group whose end is not known
        self._newest: dict[bytes, ClockBounds] = {}  # the moment of the newest record of these keys
        self._stretches: dict[bytes, list[tuple[int, int]]] = {}
        self._unseen = self._windowed and not self._traces  # silence may have closed windows without a word
        self._vague = self._unseen and loses_records(rule)
        self._aside = {offset for offset, each in published.letters.items() if outside(each.dead, self._unseen)}
        timed = self._aside if self._replayed.merges else ()
        self._only_timed = {each for each in timed if moved_the_watermark(published.letters[each].dead)}
        self._behind = _unfinished(witness, live) if self._windowed and whole else {}
        self._stops, self._next = self._all_stops(), 0

    def _all_stops(self) -> list[tuple[int, int, bytes, PublishedResult | None]]:
        """By offset: what happens before its record."""
        begin, end = self._witness.begin, self._witness.end
        stops: list[tuple[int, int, bytes, PublishedResult | None]] = [(begin, MOMENT, b"", None)]
        results = self._published.results.values()
        if self._judge.found.comparable:
            firsts = self._live_begins if not self._windowed else {}
            stops += [(first, BEGIN, key, None) for first, key in firsts.items()]
            ordered = sorted(results, key=lambda live: in_order(live.number)) if self._revised else [*results]
            stops += [(at, CUT, live.key, live) for at, live in cuts(ordered, begin, self._together)]
        if self._windowed:
            silent = [live for live in results if live.window is not None and live.window.by == "idle"]
            stops += [(live.window.next, SILENCE, b"", live) for live in silent if live.window is not None]
        if self._timed or (self._windowed and self._whole) or self._witness.restores:
            stops += [(offset + more, MOMENT, b"", None) for offset in self._clock.offsets for more in (0, 1)]
        return sorted((stop for stop in stops if begin <= stop[0] <= end), key=lambda stop: stop[:3])

    @property
    def restored(self) -> tuple[Groups, ReceivedShards, KnownIds | None]:
        """The open groups, what is known of Sluicegate's own senders, and the ids that are remembered."""
        return self._groups, self._senders, known_ids(self._groups) or (self._dedupe.seen if self._dedupe else None)

    def run_up(self, records: Sequence[Record]) -> None:
        """Records before the first one, for the repeats of our senders."""
        proof = self._published.proof
        self._senders.drop_repeats(for_us(records, self._published.partition, proof), 0.0, proof)

    def take(self, records: Sequence[Record]) -> None:
        """The next records, in order. Raises ConfigurationError where the rule would halt the partition, or where what
        it does is not known."""
        offsets = [record.offset() for record in records]
        begin = 0
        while begin < len(records):
            self._pass_stops(offsets[begin])
            until = self._stops[self._next][0] if self._next < len(self._stops) else inf
            end = bisect_left(offsets, until, begin) if offsets[-1] >= until else len(records)
            self._fold(records[begin:end])
            begin = end

    def _pass_stops(self, offset: int) -> None:
        """What happens before the record at this offset."""
        stops = self._stops
        while self._next < len(stops) and stops[self._next][0] <= offset:
            at, kind, key, live = stops[self._next]
            self._next += 1
            if kind == MOMENT:
                self._now = self._clock.at(at)
                self._expire(at)
            elif kind == BEGIN:
                self._begin(key, at)
            elif live is not None and kind == SILENCE:
                self._fall_silent(at, live)
            elif live is not None:
                self._cut(self._groups.named(key, live.first, live.window.start if live.window else 0), live)

    # Between records

    def _fall_silent(self, offset: int, live: PublishedResult) -> None:
        """Silence closed the window of a published result."""
        if live.window is not None:
            self._replayed.silence(live.window.watermark, offset, finite(self._now.low))
            self._drain()

    def _expire(self, offset: int) -> None:
        """End the groups that surely timed out before the record at `offset`."""
        if not self._timed:
            return
        for key in self._deadlines.due(self._now, lambda first: self._goes_on(first, offset)):
            self._groups.fire(key, "timeout", finite(self._now.low))
            self._deadlines.forget(key)
        self._drain()

    def _goes_on(self, first: int, offset: int) -> bool:
        """Whether the published results say that this group takes records at `offset`."""
        live = self._ends.get(first)
        return self._witnessed and (first in self._live_begins if live is None else offset <= live.last)

    def _begin(self, key: bytes, first: int) -> None:
        """A published group, or one of the store, begins with the next record of the key."""
        state = self._groups.states.get(key)
        if first in self._unfinished:
            self._cut_off(key)
            self._over.add(key)
        elif self._begun is not None and key not in self._begun:
            self._begun.add(key)
            self._let_go(key)
        elif state is not None and self._audits and not self._passes(key) and state[FIRST] not in self._live_begins:
            # An earlier group of the key ended. Nothing was published of it.
            self._groups.fire(key, UNTOLD if self._traces else "timeout", finite(self._now.low))
            self._deadlines.forget(key)
            self._drain()
            self._resolve(key, first)
        elif state is None and self._witnessed:
            self._resolve(key, first)

    def _cut_off(self, key: bytes) -> None:
        """The range has no more records for the group that the key holds now."""
        if key in self._groups.states:
            self._groups.end_as(key, CUT_OFF, "", finite(self._now.low))
            self._deadlines.forget(key)
            self._drain()

    def _cut(self, key: bytes, live: PublishedResult) -> None:
        """A published group ended behind the last record, by something that no record tells."""
        state = self._groups.states.get(key)
        if live.first < self._witness.begin:
            self._passing.discard(key)
            self._let_go(key)
        elif state is None or self._passes(key) or not self._is_of(state, live):
            return
        elif live.goes_on:
            self._tell(key, live)
        elif self._audits and live.reason == "timeout" and (why := self._early(state, live)):
            self._judge.early(live, why)
            self._let_go(key)
        else:
            self._groups.end_as(key, live.reason, live.window.by if live.window else "", live.closed or 0.0)
            self._deadlines.forget(key)
            self._groups.events = [self._as_told(event) for event in self._groups.events]
            self._drain()

    def _tell(self, group: bytes, live: PublishedResult) -> None:
        """The clock of the owner brought an early result. If a record did, the group has it already."""
        emit = self._limits.emit
        if emit is not None and emit.every is not None and self._witnessed and group not in self._groups.closed:
            self._groups.tell(group, live.closed or 0.0)
            self._drain()

    def _as_told(self, event: Fire | Decided) -> Fire | Decided:
        """One end ends all hopping windows of a key. Event time may have closed the first ones just before it."""
        live = self._published.results.get(event.number) if isinstance(event, Fire) else None
        if live is None or live.window is None or not live.told or not isinstance(event, Fire) or event.window is None:
            return event
        window = msgspec.structs.replace(event.window, by=live.window.by)
        return msgspec.structs.replace(event, reason=live.reason, window=window)

    def _is_of(self, state: GroupState, live: PublishedResult) -> bool:
        """Whether the end of the published group ends this one."""
        if self._witnessed:
            return bool(state[FIRST] >= live.first)
        return live.reason in ("manual", DROPPED) and state[FIRST] == live.first

    def _early(self, state: GroupState, live: PublishedResult) -> str:
        """Why the group cannot have timed out when its result says so; empty: it can."""
        rule = self._limits
        if live.opened is None or live.closed is None:
            return ""
        seen = max(live.opened, self._clock.at(state[LAST]).low) if rule.since_last else 0.0
        if rule.since_first and live.closed + MILLISECOND >= live.opened + rule.since_first:
            return ""
        if rule.since_last and live.closed + MILLISECOND >= seen + rule.since_last:
            return ""
        if rule.deadline is not None and live.closed + MILLISECOND >= deadline_of(state):
            return ""
        return "timeout before its time" if rule.timed else "timeout without a timeout"

    def _let_go(self, key: bytes) -> None:
        """Forget the group that the key holds now."""
        if key in self._groups.states:
            self._groups.drop(key)
        self._deadlines.forget(key)

    # Records

    def _fold(self, run: Sequence[Record]) -> None:
        self._judge.found.records += len(run)
        run = self._without_witnessed(run)
        if not run:
            return
        fresh = for_us(run, self._published.partition, self._published.proof)
        if self._published.partition.topic in self._agent.receive:
            fresh = self._senders.drop_repeats(fresh, 0.0, self._published.proof)
        try:
            for part in ([each] for each in fresh) if self._witness.restores else (fresh,):
                self._take(part)
        except (Halt, DecodeWaits) as error:
            raise ConfigurationError(f"agent {self._agent.name} would halt here: {error}") from error
        self._drain()

    def _take(self, records: Sequence[Record]) -> None:
        now = finite(self._now.low)
        if self._witness.restores and records:
            self._latest = now = max(self._latest, _within(timestamp(records[0]), self._now))
        if self._windowed:
            self._replayed.take(records, now, self._dedupe, self._only_timed)
            self._groups.touched.clear()
            self._groups.added.clear()
            return
        for part in self._replayed.runs(records, now if self._witness.restores else 0.0, self._dedupe):
            self._accept(part, now)

    def _without_witnessed(self, run: Sequence[Record]) -> Sequence[Record]:
        """The records without those that became dead letters for a reason that their bytes do not tell."""
        if not self._aside:
            return run
        for offset in self._aside.intersection(record.offset() for record in run):
            self._judge.witnessed_letter(offset)
        return [each for each in run if each.offset() not in self._aside or each.offset() in self._only_timed]

    def _accept(self, records: Sequence[Record], now: float) -> None:
        if not records:
            return
        groups = self._groups
        if not self._timed:
            accept(groups, records, now)
        elif not (self._deadlines.doubtful or self._unsure or self._deadlines.within(self._now)):
            accept(groups, records, now)
            self._note(records)
        else:
            for record in records:
                self._doubt(record)
                accept(groups, (record,), now)
                self._note((record,))
        groups.touched.clear()
        groups.added.clear()
        self._judge_limits()

    def _doubt(self, record: Record) -> None:
        """The group of the record's key may have timed out before it: its own timestamp decides."""
        key = self._key_of(record)
        if key is None or self._passes(key):
            return
        if key in self._newest and self._deadlines.over(self._newest[key], self._now):
            self._time_out(key)
            self._resolve(key, record.offset())
        elif key in self._deadlines.doubtful and not self._goes_on(self._groups.states[key][FIRST], record.offset()):
            self._unsure.setdefault(key, self._groups.states[key][FIRST])
            if self._deadlines.guess(key, _within(timestamp(record), self._now)):
                self._time_out(key)
        if key in self._unsure:
            self._newest[key] = self._now

    def _time_out(self, key: bytes) -> None:
        if key in self._groups.states:
            self._groups.fire(key, "timeout", finite(self._now.low))
            self._deadlines.forget(key)

    def _key_of(self, record: Record) -> bytes | None:
        """None for what the rule cannot read."""
        try:
            read = self._groups.rule.read(record)
            return record.key() if self._groups.rule.key_of is None else self._groups.rule.key_of(read)
        except Exception:
            return None

    def _note(self, records: Sequence[Record]) -> None:
        """The times of the groups that took these records."""
        offsets = [record.offset() for record in records]
        for key, state in self._groups.touched.items():
            if state is None:
                self._deadlines.forget(key)
                continue
            times = [timestamp(records[max(0, bisect_left(offsets, at))]) for at in (state[FIRST], state[LAST])]
            opened, seen = (_within(at, self._now) for at in times)
            self._deadlines.note(key, state, self._now, opened, seen)
        self._groups.touched.clear()

    def _judge_limits(self) -> None:
        if self._witnessed:
            return
        for name, size in (("max_groups", len(self._groups.states)), ("max_buffered_bytes", self._groups.bytes)):
            if size > getattr(self._limits, name):
                raise ConfigurationError(
                    f"agent {self._agent.name}: {name} would be reached, and which group ends then is not judged; "
                    "raise it, or choose a shorter range"
                )

    # Verdicts

    def _drain(self) -> None:
        try:
            for event in self._groups.drain():
                if isinstance(event, Refused):
                    self._judge.letter(event)
                elif isinstance(event, Fire) and not self._passes(event.key) and not self._goes_behind(event):
                    self._judge.result(event, self._is_certain(event))
        except Halt as error:
            raise ConfigurationError(f"agent {self._agent.name} would halt here: {error}") from error

    def _is_certain(self, fire: Fire) -> bool:
        """Whether it is known that the group ended so. Without the same ends, results are counted otherwise."""
        if self._revised and not self._witnessed:
            return False
        if self._vague:
            live = self._published.results.get(fire.number)
            return live is not None and (live.last, live.count) == (fire.last, fire.count)
        return not self._is_unsure(fire.key, fire.first)

    def _goes_behind(self, fire: Fire) -> bool:
        """Whether the group has records of a published one that goes on behind the range."""
        return fire.last >= self._behind.get(fire.key, inf) and fire.number not in self._published.results

    def _passes(self, key: bytes) -> bool:
        """Whether the records of the key belong to a group that began before the range, or goes on behind it."""
        begun = key not in self._passing if self._begun is None else key in self._begun
        return not begun or key in self._over

    def _resolve(self, key: bytes, offset: int) -> None:
        """From this offset on it is certain again which groups the key has."""
        since = self._unsure.pop(key, None)
        self._newest.pop(key, None)
        if since is not None:
            self._stretches.setdefault(key, []).append((since, offset))

    def _is_unsure(self, key: bytes, first: int) -> bool:
        since = self._unsure.get(key)
        if (since is not None and first >= since) or self._vague:
            return True
        return any(begin <= first < end for begin, end in self._stretches.get(key, ()))

    def finish(self) -> Shadowed:
        """All records below the end were taken."""
        witness, groups = self._witness, self._groups
        self._pass_stops(witness.end)
        if self._timed and not witness.restores:
            self._now = self._at_the_end()
            self._expire(witness.end)
            for key in self._deadlines.doubtful:
                if key in groups.states:
                    self._unsure.setdefault(key, groups.states[key][FIRST])
        if self._dedupe and self._dedupe.seen.early:
            raise ConfigurationError(
                f"agent {self._agent.name}: the range holds more ids than dedupe.max_ids, and when each of them was "
                "forgotten is not known"
            )
        if witness.restores:
            self._end_published()
        if self._whole:
            for key in list(groups.states):
                self._cut_off(key)
        elif witness.end == witness.offset and self._judge.found.comparable:
            self._judge_open()
        return self._judge.finish(witness.begin, witness.end, self._is_unknown)

    def _end_published(self) -> None:
        """End the windows that have a result: the record that closed them may lie behind the range."""
        windows = self._replayed.windows
        for name, state, _ in [*windows.listed()] if windows is not None else ():
            fire = windows.ending(key_of(name) if self._together else name, state)  # type: ignore[union-attr]
            live = self._published.results.get(fire.number)
            if live is not None and live.window is not None and (live.last, live.count) == (fire.last, fire.count):
                self._groups.end_as(name, live.reason, live.window.by, live.closed or 0.0)
        self._drain()

    def _is_unknown(self, live: PublishedResult) -> bool:
        """Whether the group of a published result that the rule does not give is not known, or ended behind the
        range."""
        if self._revised and not self._witnessed:
            return True
        windows, window = self._replayed.windows, live.window
        if windows is not None and window is not None and self._witness.end < self._witness.offset:
            closes = window.end + 1000 * windows.window.grace
            if window.next > self._witness.end or (window.by and closes >= windows.event.watermark):
                return True
        return self._is_unsure(live.key, live.first)

    def _at_the_end(self) -> ClockBounds:
        witness, now = self._witness, self._clock.at(self._witness.end)
        if witness.end < witness.offset or witness.latest is None:
            return now
        return ClockBounds(max(now.low, witness.latest - TURN), witness.now)

    def _judge_open(self) -> None:
        groups, live = self._groups, self._witness.open
        for key, state in groups.current().items():
            if self._passes(key):
                continue
            values = groups.rule.values(state, groups.bags.get(key, []))
            new = OpenExtent(Extent(state[FIRST], state[LAST], state[COUNT], OPEN), values)
            closed = self._unseen and not self._witness.restores and key not in live
            certain = not closed and not self._is_unsure(key, state[FIRST])
            self._judge.group(key, new, _open_extent(live[key]) if key in live else None, certain)
        for key, group in live.items():
            if key not in groups.states and group.first >= self._witness.begin:
                self._judge.group(key, None, _open_extent(group), not self._is_unsure(key, group.first))


def _open_extent(group: LiveGroup) -> OpenExtent:
    return OpenExtent(Extent(group.first, group.last, group.records, OPEN), group.values)


def _unfinished(witness: Witness, live: Agent) -> dict[bytes, int]:
    """By key: the first record of a window of the store that goes on behind the range."""
    firsts, window = dict[bytes, int](), live.aggregation.window if live.aggregation else None
    if window is not None and window.windower.immediate:
        return firsts
    for name, group in witness.open.items():
        key = key_of(name)
        firsts[key] = min(firsts.get(key, group.first), group.first)
    return firsts


def _within(moment: float, bounds: ClockBounds) -> float:
    return min(max(moment, bounds.low), bounds.high)
