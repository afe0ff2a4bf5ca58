"""The open groups of one partition: their contents, their changes since the last commit, and their timeouts."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from heapq import heapify, heappop, heappush
from math import inf
from typing import Any

from msgspec.structs import replace

from sluicegate.streams.aggregation.durable.cold import ColdKeys
from sluicegate.streams.aggregation.durable.entry import ClockState, ClosedState, OriginState, PastResults
from sluicegate.streams.aggregation.early import EarlyResults
from sluicegate.streams.aggregation.events import (
    COUNT_LOWERED,
    DROPPED,
    EARLY,
    Closing,
    Decided,
    Fire,
    GroupEnded,
    Refused,
    Unhandled,
    timed_out,
)
from sluicegate.streams.aggregation.group_faults import GroupFaults, fault
from sluicegate.streams.aggregation.layout import (
    BYTES,
    COLUMNS,
    COUNT,
    DEADLINE,
    DEADLINE_SINCE,
    FIRST,
    OPENED,
    ROWS,
    SEEN,
    STALE,
    Bags,
    GroupState,
    fit_deadline,
    sound,
)
from sluicegate.streams.aggregation.reducers import apply
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.causes import cause
from sluicegate.streams.contracts.record import Record, headers
from sluicegate.streams.errors import BufferFull, PersistenceError, SluicegateError
from sluicegate.streams.reducers import BEYOND, ReducerFailed
from sluicegate.streams.reduction import BagForm

LONGEST_KEY = 256 * 1024  # bytes; it stands twice in a result
LONGEST_TRACE = 256  # bytes; the standard's has 55
MOST_LINKS = 128  # for one span: OpenTelemetry keeps no more, unless OTEL_SPAN_LINK_COUNT_LIMIT is higher
MOST_TRACES = 50_000  # for the open groups of a partition, about 6 MB
LARGEST_ITEM = 3 * 1024 * 1024  # bytes that one record may add: it must fit into a changelog entry
# bytes in the bags of the groups that one expiry fires: one commit has their results, several times over
SLICE_BYTES = 4 * 1024 * 1024


class GroupLinks:
    """The values of `traceparent` of the records of each group, by the offset of its first record. It has only records
    that this process read, and at most MOST_TRACES values. Beyond that the oldest group is removed."""

    __slots__ = ("_count", "_traces")

    def __init__(self) -> None:
        self._traces: dict[int, dict[str, None]] = {}
        self._count = 0

    def note(self, first: int, record: Record) -> None:
        """Note the `traceparent` of another record of the group."""
        trace = traceparent(record)
        if trace is None:
            return
        traces = self._traces.setdefault(first, {})
        if len(traces) < MOST_LINKS and trace not in traces:
            traces[trace] = None
            self._count += 1
        while self._count > MOST_TRACES:
            self._take(next(iter(self._traces)))

    def traces_of(self, fire: Fire) -> list[str]:
        """Return the values for a group that fired, each once, at most MOST_LINKS. A group that ended is removed."""
        shared = fire.goes_on or (fire.window is not None and fire.window.shared)
        traces = self._traces.get(fire.first, {}) if shared else self._take(fire.first)
        first = {} if fire.trace is None else {fire.trace: None}
        return list(first | traces)[:MOST_LINKS]

    def _take(self, first: int) -> dict[str, None]:
        traces = self._traces.pop(first, {})
        self._count -= len(traces)
        return traces


class RecordCounts(dict[str, int]):
    """Counts of records by kind, for the metrics. If `left_out` is a set, it collects the offsets of the records that
    are neither in a group nor refused. `links` is None if spans are off."""

    left_out: set[int] | None = None
    links: GroupLinks | None = None


class Groups:
    """State of all open groups, in the order in which they were opened.

    `touched` has the newest state of every key that changed since the last commit (None: the group ended). `added` has
    the new bag items. `events` has the fires and refused records, in order. `counts` is for the metrics; `outcomes`
    counts how often each clause was true, false or failed. `asked` has the groups that an operator wants to fire, with
    the offset of their first record. `elders` are the groups of earlier versions of the rule, oldest first; the limits
    of the partition apply to all together. `idle` is the moment since which the time of the last record is stored (see
    Completion.due). `cold` describes the open groups that are in the store and not in `states`. `closed` has the groups
    in `states` whose window has closed. `early` has the results of groups that stay open. `faults` counts errors of the
    engine by group. With `notes`, each group that ends is also an event.
    """

    __slots__ = (
        "added",
        "asked",
        "bags",
        "behind",
        "bytes",
        "closed",
        "cold",
        "counts",
        "early",
        "elders",
        "events",
        "faults",
        "full",
        "heap",
        "idle",
        "notes",
        "outcomes",
        "rule",
        "states",
        "touched",
    )

    def __init__(self, rule: Rule, notes: bool = False) -> None:
        self.rule, self.notes = rule, notes
        self.states: dict[bytes, GroupState] = {}
        self.bags: dict[bytes, Bags] = {}
        self.touched: dict[bytes, GroupState | None] = {}
        self.added: dict[bytes, Bags] = {}
        self.heap: list[tuple[float, bytes]] = []
        self.events: list[Fire | Decided] = []
        self.elders: Sequence[Groups] = ()
        self.full: set[bytes] = set()
        self.asked: dict[bytes, int] = {}
        self.closed: dict[bytes, ClosedState] = {}
        self.early = EarlyResults(self, rule.aggregation.emit)
        self.faults = GroupFaults()
        self.cold = self.cold_keys(self)
        self.bytes = 0
        self.behind = False
        self.idle = 0.0
        self.counts = RecordCounts(skipped=0, discarded=0)
        self.counts.links = GroupLinks() if rule.reader.traced else None
        self.outcomes: Counter[tuple[str, str]] = Counter()

    def clock(self, whole: bool) -> ClockState | None:
        """The event clock for the next changelog entry, if it changed since the last one or `whole` is set. None
        without windows."""
        return None

    def restore_clock(self, clock: ClockState, origins: dict[str, OriginState]) -> None:
        """Restore the event clock. Does nothing without windows."""

    def close_passed(self, now: float) -> None:
        """Close the windows that the watermark has passed. Does nothing without windows."""

    def beside(self, newest: "Groups") -> None:
        """Let these groups share the event clock of the newest groups of the partition. Does nothing without
        windows."""

    def is_open_for(self, record: Record, key: bytes, read: Any) -> bool:
        """Whether the record of this key, as the rule reads it, belongs to an open group. Raises NoTime."""
        return key in self.states

    def origins(self, whole: bool) -> dict[str, OriginState]:
        """The origins for the next changelog entry: those that changed since the last one, or all."""
        return {}

    def open(self, key: bytes | None, record: Record, now: float) -> GroupState | None:
        """Open a group for this record. None: the record was refused."""
        if key is None or len(key) > LONGEST_KEY:
            self.refuse_key(record, key, LONGEST_KEY)
            return None
        if self.cold.absent is not None and self.cold.unasked(key):
            raise PersistenceError(
                "the store was not asked for a cold group of this key; the partition is claimed again"
            )
        if self.crowded() and not self.relieve(record, now, f"max_groups {self.rule.aggregation.max_groups}"):
            return None
        offset = record.offset()
        state: GroupState = [0, offset, offset, now, None, traceparent(record), 0, *self.rule.plan.blank]
        self.states[key] = self.touched[key] = state
        if self.rule.plan.bags:
            self.bags[key] = self.rule.plan.empty_bags()
            self.added.pop(key, None)
        if self.rule.completion.timed and self.rule.completion.most > 1:
            self._wait(key, self.due(state))
        self.early.opened(key)
        return state

    def _wait(self, key: bytes, at: float) -> None:
        """Check the timeout of this group again at that moment. Early results are not rearmed here, because a record
        may be half added."""
        if len(self.heap) > 2 * len(self.states) + STALE:
            self._fill_heap()
        elif at < inf:
            heappush(self.heap, (at, key))

    def wait(self, key: bytes) -> None:
        """Check the timeout of this group, if it is open, when it is due. The row of a cold group has done so."""
        state = self.states.get(key)
        if state is not None and self.rule.completion.timed:
            self._wait(key, self.rule.completion.due(state, self.idle))

    def reopen(self, key: bytes, state: GroupState, items: Bags, past: PastResults | None, timed: bool) -> None:
        """Add a group that was cold. `items` are those of its bags: the next changelog entry has them, because the
        entry of the eviction closed the group. `timed`: its timeout may be another one than its row says."""
        self.states[key] = self.touched[key] = state
        self.bytes += state[BYTES]
        if items:
            self.bags[key] = self.rule.plan.bags_of(items)
            self.added[key] = items
        if timed:
            self.wait(key)
        if past is not None or self.early.every < inf:
            self.early.goes_on(key, past)

    def give_deadline(self, key: bytes, state: GroupState, deadline: float, now: float) -> bool:
        """Set the deadline that the newest record gives: an instant, or a duration. Infinity removes the known
        deadline. Returns whether the group has timed out at `now`."""
        before, rule = self.rule.completion.due(state, self.idle), self.rule.aggregation.deadline
        since = None if rule is None or rule.at else state[OPENED] if rule.since == "first" else now
        state[DEADLINE_SINCE], state[DEADLINE] = (None, None) if deadline == inf else (since, deadline)
        if (at := deadline if since is None else since + deadline) < before:
            self._wait(key, at)
            return at <= now
        return before <= now and self.due(state) <= now

    def fits(self, state: GroupState) -> bool:
        """Whether a state from the store fits this rule. Adds or removes the slots of a deadline from the data."""
        width, from_data = self.width, self.rule.completion.from_data
        if len(state) != width:
            fit_deadline(state, width, from_data)
        return sound(state, width, from_data)

    cold_keys: type[ColdKeys] = ColdKeys
    """How the cold groups of this kind are rows."""
    at_end = False
    """Whether the owner is at the end of the partition (only of windows)."""

    def since(self, state: GroupState) -> float:
        """The owner's time from which the age of a group is measured."""
        opened: float = state[OPENED]
        return opened

    def obeys_clock(self) -> bool:
        """Whether a deadline on the owner's clock ends a group now."""
        return True

    def put_first(self, keys: Sequence[bytes]) -> None:
        """Move these groups to the front of the order. They fire first when room is needed."""
        self.states = {key: self.states[key] for key in keys} | self.states

    def crowded(self) -> bool:
        """Whether the partition has reached `max_groups`."""
        elders = sum(len(elder.states) for elder in self.elders) if self.elders else 0
        count, most = len(self.states) + self.cold.count + elders, self.rule.aggregation.max_groups
        return count >= most and count - self.cold.waiting() >= most

    @property
    def width(self) -> int:
        """The length of a state."""
        return COLUMNS + len(self.rule.plan.blank)

    def due(self, state: GroupState) -> float:
        """The moment at which this group times out, on the owner's clock; infinity for never."""
        return self.rule.completion.due(state, self.idle)

    def growth(self, key: bytes | None, items: list[Any]) -> int:
        """The number of bytes that these items would add to the group. None is no item."""
        return sum(form.growth(bag, item) for form, bag, item in self._into(key, items))

    def freed(self, key: bytes | None, items: list[Any]) -> int:
        """The number of bytes that these items would remove from the group."""
        return sum(form.freed(bag, item) for form, bag, item in self._into(key, items))

    def _into(self, key: bytes | None, items: list[Any]) -> Iterator[tuple[BagForm, Any, Any]]:
        """Yield the bag's form, the bag and the item, for each item that is not None. The bag is None if the group is
        not open."""
        bags = self.bags.get(key) if key is not None else None
        for index, item in enumerate(items):
            if item is not None:
                yield self.rule.plan.bags[index].form, None if bags is None else bags[index], item

    def collect(self, key: bytes, state: GroupState, items: list[Any]) -> None:
        """Add the items of a record to the bags. None is no item."""
        kept, fresh, size = self.bags[key], self.added.get(key), 0
        if fresh is None:
            fresh = self.added[key] = [[] for _ in items]
        for index, item in enumerate(items):
            grown = None if item is None else self.rule.plan.bags[index].form.put(kept[index], item)
            if grown is not None:
                fresh[index].append(item)
                size += grown
        state[BYTES] += size
        self.bytes += size

    def fire(self, key: bytes, reason: str, now: float) -> None:
        """Close the group. Emit its result, or do what `on_timeout` requires."""
        early = self.early
        early.revision = self.results(key) + 1 if early.past or self.closed else 1
        repeats = early.emit is not None and self.repeats(key)
        state, bags = self.drop(key)
        self._note(key, state, reason, now)
        if repeats:
            return
        on_timeout = self.rule.aggregation.on_timeout if reason == "timeout" else "fire"
        if on_timeout == "discard":
            self.counts["discarded"] += 1
            return
        send = self.emit if on_timeout == "fire" else self._letter
        self.let_out(key, state, bags, reason, now, send)

    def _letter(self, fire: Fire) -> None:
        """Make the group a dead letter: it has no result, and no handler gets it."""
        self.events.append(timed_out(fire))

    def grew(self, key: bytes, state: GroupState, now: float, before: Any = None) -> None:
        """Note that the group has another record and stays open. Emit an early result if one is due. `before` are the
        computed fields without the record."""
        early = self.early
        if key in self.closed:
            return
        if early.count and not state[COUNT] % early.count:
            self.tell(key, now)
        elif key in early.quiet:
            early.changed(key, now)
        elif early.on_change and before != self.rule.computable(state, self.bags.get(key, [])):
            self.tell(key, now)

    def tell(self, key: bytes, now: float) -> None:
        """Emit an early result of the group, unless the last result covers all of its records."""
        state = self.states[key]
        if self.early.has_all(key, state):
            return
        bags = [bag.copy() for bag in self.bags.get(key, ())]
        self.early.revision = self.results(key) + 1
        self.early.sent(key, state)
        self.touched[key] = state
        self.let_out(key, state, bags, EARLY, now, self.emit)

    def tell_due(self, now: float, most: int) -> int:
        """Emit up to `most` early results that are due, and not many more bytes than SLICE_BYTES. Returns their
        number."""
        many = size = 0
        for key in self.early.due(now) if most > 0 else ():
            size += self.states[key][BYTES]
            self.tell(key, now)
            many += 1
            if many >= most or size > SLICE_BYTES:
                break
        return many

    def results(self, key: bytes) -> int:
        """The number of results that the group had."""
        return self.early.results(key)

    def repeats(self, key: bytes) -> bool:
        """Whether the last result would repeat an early one, and the file omits it."""
        emit = self.early.emit
        return emit is not None and not emit.final and self.early.has_all(key, self.states[key])

    def let_out(
        self, key: bytes, state: GroupState, bags: Bags, reason: str, now: float, send: Callable[[Fire], object]
    ) -> None:
        """Compute the result and pass it to `send`. A group becomes a dead letter, with the fields that can be
        computed, if the engine has given it up or a user reducer fails. Raises GroupFault."""
        try:
            if self.faults and self.faults.gives_up(group := self.fired(key, state, reason, now, {})):
                self._give_up(self.faults.letter(replace(group, values=self.rule.computable(state, bags))))
                return
            send(self.fired(key, state, reason, now, self.rule.values(state, bags)))
        except ReducerFailed as error:
            group = self.fired(key, state, reason, now, self.rule.computable(state, bags))
            self._give_up(Unhandled(group, str(error), 1, "reducer", error.where, stage="aggregate"))
        except SluicegateError:
            raise
        except Exception as error:
            raise fault(error, self.fired(key, state, reason, now, {})) from error

    def _give_up(self, letter: Unhandled) -> None:
        """Emit the dead letter. It is omitted for an early result, because the last result will report the error."""
        if not letter.fire.goes_on:
            self.events.append(letter)

    def flush(self, key: bytes, now: float) -> None:
        """Close the group for good, and emit the records that no result covers yet."""
        self.fire(key, "manual", now)

    def emit(self, fire: Fire) -> None:
        """Emit the result as `having` and the routes of the file decide. A result with a number that it cannot
        represent becomes a dead letter."""
        results = self.rule.results
        if names := self.rule.overflowed(fire.values):
            text = f"the records of the group give {' and '.join(names)} {BEYOND}"
            self._give_up(Unhandled(fire, text, 1, "overflow", stage="aggregate"))
        else:
            self.events += [fire] if results is None else results.events(fire, self.outcomes)

    def named(self, key: bytes, first: int, start: int) -> bytes:
        """The name in `states` of the group of this key whose first record is at offset `first`, in a window that
        begins at `start`."""
        return key

    def end_as(self, key: bytes, reason: str, by: str, now: float) -> None:
        """Close the group with this reason. `by` is as in Closing."""
        (self.flush(key, now) if reason == "manual" else self.fire(key, reason, now))

    def forget(self, key: bytes, now: float) -> None:
        """Close the group for good and drop its records without a result."""
        self.early.revision = self.results(key) + 1
        state, _ = self.drop(key)
        self._note(key, state, DROPPED, now)

    def _note(self, key: bytes, state: GroupState, reason: str, now: float) -> None:
        if self.notes:
            self.events.append(GroupEnded(self.fired(key, state, reason, now, {})))

    def fired(self, key: bytes, state: GroupState, reason: str, now: float, values: dict[str, Any]) -> Fire:
        """The event of a group that ends now, with these computed fields."""
        fire = fired(key, state, reason, now, values, None, self.early.revision, self.early.is_final(reason))
        return replace(fire, count=state[ROWS]) if self.rule.aggregation.table else fire

    def ending(self, key: bytes, state: GroupState) -> Fire:
        """The group as its next result would identify it. The keys of panes have no early results."""
        self.early.revision = self.results(key) + 1
        return self.fired(key, state, "", 0.0, {})

    def current(self) -> Mapping[bytes, GroupState]:
        """The states, without groups that only wait to be dropped."""
        return self.states

    def listed(self, key: bytes | None = None) -> Iterator[tuple[bytes, GroupState, Bags]]:
        """List the open groups of this key, or all, for operators: the name in the changelog, the state and the bags of
        each."""
        names = self.states if key is None else self.names(key)
        return ((name, self.states[name], self.bags.get(name, [])) for name in names)

    def names(self, key: bytes) -> list[bytes]:
        """The names of the open groups of a key."""
        return [key] if key in self.states else []

    def drop(self, key: bytes) -> tuple[GroupState, Bags]:
        """Close the group without a result. Returns its state and bags."""
        state, bags = self.states.pop(key), self.bags.pop(key, [])
        self.touched[key] = None
        self.added.pop(key, None)
        self.full.discard(key)
        self.closed.pop(key, None)
        if self.early.past:
            self.early.ended(key)
        self.bytes -= state[BYTES]
        return state, bags

    def refuse(self, record: Record, stage: str, reason: str, error: str, where: str = "", clause: str = "") -> None:
        self.events.append(Refused(record, stage, reason, error, where=where, clause=clause))

    def leave_out(self, record: Record) -> None:
        """Note that the record is in no group and is not a dead letter."""
        if self.counts.left_out is not None:
            self.counts.left_out.add(record.offset())

    def skip(self, record: Record) -> None:
        """As `leave_out`, and count the record as skipped."""
        self.counts["skipped"] += 1
        self.leave_out(record)

    def refuse_key(self, record: Record, key: bytes | None, longest: int) -> None:
        """Refuse a record without a key, or with a key of more than `longest` bytes."""
        if key is None:
            self.refuse(record, "key", "no-key", "the record has no key; give it one, or name a field with key:")
        else:
            self.refuse(record, "key", "too-large", f"the key has {len(key)} bytes, more than {longest}")

    def whole(self, state: GroupState, bags: Bags) -> tuple[GroupState, Bags]:
        """The state and the bags that an `until` expression sees. A session includes the sessions that would merge with
        it."""
        return state, bags

    def complete(self, key: bytes, state: GroupState, read: Any, now: float) -> None:
        """End the group after this record: by its count, by `until`, or by a limit."""
        self.end(key, state, self.rule.until is not None and self.rule.until(read), now)

    def end(self, key: bytes, state: GroupState, until: bool, now: float) -> None:
        """As `complete`, with the result of `until`."""
        if state[COUNT] >= self.rule.completion.count:
            self.fire(key, "count", now)
        elif until:
            self.fire(key, "until", now)
        else:
            self.limit(key, now)

    def limit(self, key: bytes, now: float) -> None:
        """The group has reached `max_items`: fire it, or accept no more records."""
        if self.rule.parts:
            self.fire(key, "limit", now)
        else:
            self.full.add(key)
            if not self.early.on_change:
                self.grew(key, self.states[key], now)

    def admits(self, key: bytes, state: GroupState | None, record: Record, items: list[Any], now: float) -> bool:
        """Whether the group and the partition have room for these items of the record. Fires groups to make room if
        `on_full` allows it."""
        aggregation = self.rule.aggregation
        size = self.growth(key, items)
        if self.outgrows(record, size + self.freed(key, items)):
            return False
        if state is not None and state[BYTES] + size > aggregation.max_bytes:
            if not self.rule.parts:
                return self.deny(record, f"max_bytes {aggregation.max_bytes}")
            self.fire(key, "limit", now)
        while self.bytes + size > self.most_bytes:
            if not self.relieve(record, now, f"max_buffered_bytes {aggregation.max_buffered_bytes}"):
                return False
        return True

    def outgrows(self, record: Record, size: int) -> bool:
        """Whether the record needs more bytes than any group may hold. Such a record is refused."""
        most = self.largest
        if size > most:
            self.refuse(
                record, "aggregate", "too-large", f"{size} bytes are more than a group may hold of one record ({most})"
            )
        return size > most

    @property
    def largest(self) -> int:
        """The largest number of bytes that a group may hold of one record."""
        aggregation = self.rule.aggregation
        return min(aggregation.max_bytes, aggregation.max_buffered_bytes, LARGEST_ITEM)

    def relieve(self, record: Record, now: float, limit: str) -> bool:
        """A limit of the partition is reached: fire the oldest group, or `deny`. Returns False if the record was
        refused."""
        if self.rule.aggregation.on_full != "fire-oldest":
            return self.deny(record, limit)
        self.fire_oldest(now)
        return True

    def deny(self, record: Record, limit: str) -> bool:
        """Refuse a record for which no group can make room, or halt the partition. Returns False."""
        if self.rule.aggregation.on_full == "stop":
            raise BufferFull(
                f"{limit} is reached and on_full is stop; raise the limit, or let on_full be fire-oldest or dead-letter"
            )
        self.refuse(record, "aggregate", "limit", f"{limit} is reached")
        return False

    def fire_oldest(self, now: float) -> None:
        """Make room: fire the group that was opened first, from the earliest version of the rule that has one."""
        elder = next((elder for elder in self.elders if elder.states), None)
        if elder is None:
            self.fire(next(iter(self.states)), "limit", now)
        else:
            elder.fire_oldest(now)

    @property
    def most_bytes(self) -> int:
        """The largest number of bytes in the bags of these groups. The bags of `elders` are subtracted."""
        most = self.rule.aggregation.max_buffered_bytes
        return most - sum(elder.bytes for elder in self.elders) if self.elders else most

    def fold(self, state: GroupState, record: Record, value: bytes) -> Callable[[], None] | None:
        """Run the user reducers. If one fails, none has an effect, and a function that refuses the record is
        returned."""
        folds = self.rule.plan.folds
        try:
            message = self.rule.reader.message(value)
            accumulators = [apply(fold, state, message) for fold in folds]
        except Exception as e:
            raised = cause(e)
            text = f"a reducer of this agent raised {raised.text}"
            return partial(self.refuse, record, "aggregate", "reducer", text, raised.where)
        size, most = sum(map(len, accumulators)), min(self.rule.aggregation.max_bytes, LARGEST_ITEM)
        if size > most:
            text = f"its reducers would hold {size} bytes, more than max_bytes {most}"
            return partial(self.refuse, record, "aggregate", "too-large", text)
        for fold, accumulator in zip(folds, accumulators, strict=True):
            state[fold.slot] = accumulator
        return None

    def unopen(self, key: bytes, state: GroupState) -> None:
        """Remove a group that was opened for a refused record."""
        if not state[COUNT]:
            del self.states[key]
            self.bags.pop(key, None)
            self.closed.pop(key, None)
            self.early.ended(key)
            self.touched[key] = None

    def next_due(self) -> float:
        """The nearest deadline on the owner's clock; infinity for none. It may be early, never late."""
        return min(self.heap[0][0] if self.heap else inf, self.early.next_due())

    def due_at(self, key: bytes) -> float:
        """The moment of the next event of this open group: its timeout, or its next early result."""
        due = self.due(self.states[key])
        return due if self.early.every == inf else min(due, self.early.due_at(key))

    def expire(self, now: float, most: int) -> int:
        """Fire up to `most` groups that are due, and not many more bytes than SLICE_BYTES. Returns their number.
        `behind` is set if more groups are due."""
        heap, states, due = self.heap, self.states, self.due
        fired = 0
        enough = self.bytes - SLICE_BYTES
        while heap and heap[0][0] <= now and fired < most and self.bytes >= enough:
            _, key = heappop(heap)
            state = states.get(key)
            if state is None:
                continue
            at = due(state)
            if at <= now:
                self.fire(key, "timeout", now)
                fired += 1
            elif at < inf:
                heappush(heap, (at, key))
        if len(heap) > 2 * len(states) + STALE:
            self.rearm()
        self.behind = bool(heap) and heap[0][0] <= now
        return fired + self.tell_due(now, most - fired)

    def rearm(self) -> None:
        """Rebuild the deadlines from the open groups: after a restore, or when most deadlines are stale."""
        if self.rule.completion.timed:
            self._fill_heap()
        self.early.rearm()

    def _fill_heap(self) -> None:
        self.heap = [(at, key) for key, state in self.states.items() if (at := self.due(state)) < inf]
        heapify(self.heap)

    def set_back(self, now: float) -> None:
        """The owner's time is `now`. Later times in the states were read from a clock that was ahead. They are moved
        back to `now`, so a deadline is at most its own duration away. The next commit stores the change."""
        times = [OPENED, SEEN, *([DEADLINE_SINCE] if self.rule.completion.from_data else [])]
        ahead = [key for key, state in self.states.items() if any((state[time] or 0.0) > now for time in times)]
        for key in ahead:
            state = self.touched[key] = self.states[key]
            for time in times:
                state[time] = min(state[time], now) if state[time] else state[time]
        if ahead or self.idle > now:
            self.idle = min(self.idle, now)
            self.rearm()
        if self.early.past:
            self.early.set_back(now)

    def judge(self) -> Sequence[tuple[bytes, str]]:
        """List the groups that must end after a restore and before the next record, with the reason of each.

        `count` or a limit may be lower than when the groups were filled. An operator may have asked to fire a group: it
        ends only if its first record is still the same.
        """
        asked = ((key, self.states.get(key), first) for key, first in self.asked.items())
        ending = {key: "manual" for key, state, first in asked if state is not None and state[FIRST] == first}
        return list((ending | self.complete_by_now(self.states)).items())

    def complete_by_now(self, keys: Iterable[bytes]) -> dict[bytes, str]:
        """List the groups among these keys that have reached `count` or a limit, with the reason of each."""
        count, most = self.rule.completion.count, self.rule.completion.most
        ending = dict[bytes, str]()
        for key in keys:
            state = self.states[key]
            if state[COUNT] < most:
                continue
            if state[COUNT] >= count:
                ending[key] = "count" if state[COUNT] == count else COUNT_LOWERED
            elif self.rule.parts:
                ending[key] = "limit"
            else:
                self.full.add(key)
        return ending

    def oldest(self) -> float | None:
        """When the oldest open group was opened."""
        first = next(iter(self.states.values()), None)
        return None if first is None else float(first[OPENED])

    def drain(self) -> Iterator[Fire | Decided]:
        """Take the events since the last call."""
        events, self.events = self.events, []
        return iter(events)


def fired(
    key: bytes,
    state: GroupState,
    reason: str,
    now: float,
    values: dict[str, Any],
    window: Closing | None = None,
    revision: int = 1,
    final: bool | None = None,
) -> Fire:
    """The event of a group that ends now, with these computed fields. The other fields are as in Fire."""
    count, first, last, opened, _, trace = state[:BYTES]
    closed = max(now, opened)
    return Fire(
        key, count, reason, first, last, opened, closed, trace, values, (), None, window, 0, None, revision, final
    )


def traceparent(record: Record) -> str | None:
    for name, value in headers(record):
        if name == "traceparent" and value is not None and len(value) <= LONGEST_TRACE:
            return value.decode("ascii", "replace")
    return None
