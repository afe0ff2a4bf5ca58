"""Processes the input of one partition under a rule, with its state in memory, and judges it against the published
results. Pure.

The product's own aggregation makes the groups. The published results, or the bounds that they set to the owner's clock,
decide what the records leave open. With the same rule (an audit), or a rule that only changes the contents of results,
a group that ended by a timeout, by a limit or by hand ends behind the record that its published result names; silence
moves the watermark where the results show that it did. With a rule that ends groups otherwise, a timeout is decided
from the bounds. If they leave it open, the record's own timestamp decides. The key's groups are then uncertain, until a
record comes before which any group of the key has certainly timed out.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from sluicegate.streams.agent import Agent, Aggregation
from sluicegate.streams.aggregation.events import DROPPED, Decided, Fire, Refused
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.layout import COUNT, FIRST, LAST, GroupState
from sluicegate.streams.aggregation.seen import KnownIds
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.errors import ConfigurationError, DecodeWaits, Halt
from sluicegate.streams.outbox.rows import timestamp
from sluicegate.streams.reading.receive import ReceivedShards
from sluicegate.streams.shadow.clock import OwnerClock
from sluicegate.streams.shadow.edges import RangeEdges
from sluicegate.streams.shadow.hidden_limits import HiddenLimits
from sluicegate.streams.shadow.intake import ShadowIntake
from sluicegate.streams.shadow.judge import OPEN, OpenExtent
from sluicegate.streams.shadow.published import PublishedResult
from sluicegate.streams.shadow.revisions import PublishedRevisions, revision
from sluicegate.streams.shadow.stops import BEGIN, MOMENT, SILENCE, FoldStops
from sluicegate.streams.shadow.timeouts import ShadowTimeouts
from sluicegate.streams.shadow.uncertainty import Uncertainty
from sluicegate.streams.shadow.verdicts import Extent, Shadowed
from sluicegate.streams.shadow.witness import (
    Codecs,
    LiveGroup,
    LiveSpans,
    Witness,
    judge_start,
    leaves_traces,
    loses_records,
    moments,
    same_ends,
    same_key,
)
from sluicegate.streams.windows.opening import known_ids
from sluicegate.streams.windows.replayed import ReplayedGroups
from sluicegate.streams.windows.tumbling import key_of

TURN = 1.0  # seconds: the last commit may have missed a deadline that lies this shortly before it
UNTOLD = "unknown"  # the reason of a group whose end nothing records
CUT_OFF = "replay"  # the reason of a group that the range cuts off


class FoldReceiver(Protocol):
    """Receives the decisions of the rule: ShadowJudge compares them, Corrections makes outputs of them."""

    verdicts: Shadowed

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
        self._agent, self._witness, self._judge = rule, witness, judge
        self._judge.verdicts.comparable = comparable
        self._witnessed, self._traces = same_ends(rule, live), leaves_traces(rule)
        self._audits, self._whole = rule == live and not whole, whole
        self._limits = rule.aggregation or Aggregation()
        emit = self._limits.emit
        self._clock = OwnerClock(moments(witness), witness.now, witness.begin)
        judge_start(rule, witness, self._clock.span)
        self._replayed = ReplayedGroups(rule, codecs.reads, witness.now, witness.origins)
        self._groups, windowed = self._replayed.groups, self._replayed.windows is not None
        unseen = windowed and not self._traces  # silence may have closed windows without a message
        unfinal = not self._traces and emit is not None and not emit.final
        self._silent = unseen or unfinal  # groups may end without a message
        self._intake = ShadowIntake(rule, codecs.reads, published, unseen, self._replayed.merges)
        self._edges = RangeEdges(witness, live, comparable, windowed, whole)
        hidden = unseen and self._limits.on_full == "fire-oldest"
        self._hidden = HiddenLimits(self._replayed.windows, self._limits) if hidden and self._replayed.windows else None
        counted = published.revised() and not self._witnessed
        self._uncertain = Uncertainty(published, counted, unseen and loses_records(rule))
        self._spans = LiveSpans(witness, windowed)
        self._revisions = PublishedRevisions(published, self._limits, self._witnessed)
        self._timeouts = ShadowTimeouts(
            self._groups,
            self._limits,
            self._clock,
            self._spans if self._witnessed else None,
            self._edges,
            self._uncertain,
            recorded=self._audits and self._traces,
        )
        known = self._clock.offsets if self._timeouts.timed or (windowed and whole) or witness.restores else ()
        self._stops = FoldStops(witness, live, self._spans.begins, known, comparable, windowed)

    @property
    def restored(self) -> tuple[Groups, ReceivedShards, KnownIds | None]:
        """The open groups, the known shards of Sluicegate's own senders, and the remembered ids."""
        dedupe = self._intake.dedupe
        return self._groups, self._intake.senders, known_ids(self._groups) or (dedupe.seen if dedupe else None)

    def run_up(self, records: Sequence[Record]) -> None:
        """Takes the records before the first one, to recognize repeats of our senders."""
        self._intake.fresh(records, 0.0)

    def take(self, records: Sequence[Record]) -> None:
        """Takes the next records, in order. Raises ConfigurationError where the rule would halt the partition, or where
        its effect is unknown."""
        offsets = [record.offset() for record in records]
        begin = 0
        while begin < len(records):
            self._pass_stops(offsets[begin])
            end = bisect_left(offsets, self._stops.next, begin)
            self._fold(records[begin:end])
            begin = end

    def _pass_stops(self, offset: int) -> None:
        """Applies the events before the record at this offset."""
        for stop in self._stops.before(offset):
            live = stop.live
            if stop.kind == MOMENT:
                self._clock.move(stop.offset)
                self._timeouts.expire(stop.offset)
                self._drain()
            elif stop.kind == BEGIN:
                self._begin(stop.key, stop.offset)
            elif live is not None and stop.kind == SILENCE:
                # the silence that closed this window closed others as well
                if live.window is not None:
                    self._replayed.silence(live.window.watermark, stop.offset, self._clock.now.seconds)
                    self._drain()
            elif live is not None:
                self._cut(self._groups.named(stop.key, live.first, live.window.start if live.window else 0), live)

    # Between records

    def _begin(self, key: bytes, first: int) -> None:
        """A published group, or an open group of the store, begins with the next record of the key."""
        state = self._groups.states.get(key)
        if self._edges.goes_on(first):
            self._cut_off(key)
            self._edges.leave(key)
        elif self._edges.enters(key):
            self._let_go(key)
        elif state is None:
            if self._witnessed:
                self._uncertain.resolve(key, first)
        elif self._audits and not self._edges.crosses(key) and not self._spans.tells_end(state[FIRST]):
            # An earlier group of the key ended without a published last result.
            self._groups.fire(key, UNTOLD if self._traces else "timeout", self._clock.now.seconds)
            self._timeouts.forget(key)
            self._drain()
            self._uncertain.resolve(key, first)

    def _cut_off(self, key: bytes) -> None:
        """Ends the key's present group, because the range has no more records for it."""
        if key in self._groups.states:
            self._groups.end_as(key, CUT_OFF, "", self._clock.now.seconds)
            self._timeouts.forget(key)
            self._drain()

    def _cut(self, key: bytes, live: PublishedResult) -> None:
        """Ends a published group behind its last record. No record shows the cause of the end."""
        state = self._groups.states.get(key)
        if live.first < self._witness.begin:
            self._edges.end(key)
            self._let_go(key)
        elif state is None or self._edges.crosses(key) or not self._is_of(state, live):
            return
        elif live.goes_on:
            # the owner's clock made this early result; one that a record made is there already
            if self._revisions.by_clock and key not in self._groups.closed:
                self._groups.early.left_out(key, revision(live) - 1)
                self._groups.early.tell(key, live.closed or 0.0)
                self._drain()
        elif self._audits and live.reason == "timeout" and (why := self._timeouts.too_early(state, live)):
            self._judge.early(live, why)
            self._let_go(key)
        else:
            if self._hidden is not None and live.reason == "limit":
                self._hidden.cut(key, state)
            self._groups.end_as(key, live.reason, live.window.by if live.window else "", live.closed or 0.0)
            self._timeouts.forget(key)
            self._groups.events = [self._as_told(event) for event in self._groups.events]
            self._drain()

    def _as_told(self, event: Fire | Decided) -> Fire | Decided:
        """The event with the reason and the window of the published result. One end ends all hopping windows of a key,
        but event time may have closed the first ones just before it."""
        live = self._witness.published.results.get(event.number) if isinstance(event, Fire) else None
        if (
            live is None
            or live.window is None
            or not live.replayable
            or not isinstance(event, Fire)
            or event.window is None
        ):
            return event
        window = msgspec.structs.replace(event.window, by=live.window.by)
        return msgspec.structs.replace(event, reason=live.reason, window=window)

    def _is_of(self, state: GroupState, live: PublishedResult) -> bool:
        """Whether the end of the published group also ends this group."""
        if self._witnessed:
            return bool(state[FIRST] >= live.first)
        return live.reason in ("manual", DROPPED) and state[FIRST] == live.first

    def _let_go(self, key: bytes) -> None:
        """Drops the key's present group without an event."""
        if key in self._groups.states:
            self._groups.drop(key)
        self._timeouts.forget(key)

    # Records

    def _fold(self, run: Sequence[Record]) -> None:
        self._judge.verdicts.records += len(run)
        aside = self._intake.aside(run)
        for offset in aside:
            self._judge.witnessed_letter(offset)
        if not (run := self._intake.without(aside, run)):
            return
        fresh = self._intake.fresh(run, 0.0)
        try:
            for part in ([record] for record in fresh) if self._witness.restores else (fresh,):
                self._take(part)
        except (Halt, DecodeWaits) as error:
            raise ConfigurationError(f"agent {self._agent.name} would halt here: {error}") from error
        self._drain()

    def _take(self, records: Sequence[Record]) -> None:
        now, restores = self._clock.now.seconds, self._witness.restores
        if restores and records:
            now = self._clock.in_order(timestamp(records[0]))
        if self._replayed.windows is not None:
            for part in self._hidden.parts(records) if self._hidden is not None else (records,):
                self._replayed.take(part, now, self._intake.dedupe, self._intake.only_timed)
                self._groups.changes()
                if part and self._hidden is not None and self._hidden.hides(offset := part[0].offset()):
                    self._uncertain.lose(offset, (state[FIRST] for state in self._groups.states.values()))
            return
        for part in self._replayed.runs(records, now if restores else 0.0, self._intake.dedupe):
            if part:
                self._timeouts.take(part, now)
                self._groups.changes()
                self._judge_limits()

    def _judge_limits(self) -> None:
        if self._witnessed:
            return
        for name, size in (("max_groups", self._groups.number), ("max_buffered_bytes", self._groups.bytes)):
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
                elif isinstance(event, Fire) and self._edges.judges(event):
                    self._judge.result(self._revisions.as_published(event), self._uncertain.is_certain(event))
        except Halt as error:
            raise ConfigurationError(f"agent {self._agent.name} would halt here: {error}") from error

    def finish(self) -> Shadowed:
        """Ends the fold, after all records below the end."""
        witness, groups = self._witness, self._groups
        self._pass_stops(witness.end)
        if self._timeouts.timed and not witness.restores:
            self._clock.move(witness.end)
            if witness.end == witness.offset and witness.latest is not None:
                self._clock.stop(witness.latest - TURN)
            self._timeouts.expire(witness.end)
            self._drain()
            self._timeouts.leave_open()
        if self._intake.dedupe and self._intake.dedupe.seen.early:
            raise ConfigurationError(
                f"agent {self._agent.name}: the range holds more ids than dedupe.max_ids, and when each of them was "
                "forgotten is not known"
            )
        if witness.restores:
            self._end_published()
        if self._whole:
            for key in list(groups.states):
                self._cut_off(key)
        elif witness.end == witness.offset and self._judge.verdicts.comparable:
            self._judge_open()
        return self._judge.finish(witness.begin, witness.end, self._is_unknown)

    def _end_published(self) -> None:
        """Ends the windows that have a result: the record that closed them may lie behind the range."""
        windows = self._replayed.windows
        if windows is None:
            return
        for name, state, _ in [*windows.listed()]:
            fire = windows.ending(key_of(name) if windows.window.windower.together else name, state)
            live = self._witness.published.results.get(fire.number)
            if live is not None and live.window is not None and (live.last, live.count) == (fire.last, fire.count):
                self._groups.end_as(name, live.reason, live.window.by, live.closed or 0.0)
        self._drain()

    def _is_unknown(self, live: PublishedResult) -> bool:
        """Whether the group of a published result that the rule does not give is unknown, or ended behind the range."""
        windows, window = self._replayed.windows, live.window
        if windows is not None and window is not None and self._witness.end < self._witness.offset:
            closes = window.end + 1000 * windows.window.grace
            if window.next > self._witness.end or (window.by and closes >= windows.event.watermark):
                return True
        return self._uncertain.is_unknown(live)

    def _judge_open(self) -> None:
        groups, live = self._groups, self._witness.open
        for key, state in groups.current().items():
            if self._edges.crosses(key):
                continue
            values = groups.rule.values(state, groups.bags.get(key, []))
            new = OpenExtent(Extent(state[FIRST], state[LAST], state[COUNT], OPEN), values)
            closed = self._silent and not self._witness.restores and key not in live
            certain = not closed and not self._uncertain.is_unsure(key, state[FIRST])
            self._judge.group(key, new, _open_extent(live[key]) if key in live else None, certain)
        for key, group in live.items():
            if key not in groups.states and group.first >= self._witness.begin:
                self._judge.group(key, None, _open_extent(group), not self._uncertain.is_unsure(key, group.first))


def _open_extent(group: LiveGroup) -> OpenExtent:
    return OpenExtent(Extent(group.first, group.last, group.records, OPEN), group.values)
