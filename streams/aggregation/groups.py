"""The open groups of one partition: what they hold, what changed since the last commit, which time out next."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from heapq import heapify, heappop, heappush
from math import inf
from typing import Any

from msgspec.structs import replace

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
MOST_LINKS = 128  # of one span: OpenTelemetry keeps no more, unless OTEL_SPAN_LINK_COUNT_LIMIT is higher
MOST_TRACES = 50_000  # of the open groups of a partition, about 6 MB
LARGEST_ITEM = 3 * 1024 * 1024  # bytes that one record may add: it must fit into a changelog entry
# in the bags of the groups that one expiry fires: their results are in one commit, several times over
SLICE_BYTES = 4 * 1024 * 1024


class GroupLinks:
    """The values of `traceparent` of the records of each group, by the offset of its first record: of those that this
    process took, and at most MOST_TRACES. The oldest group gives way."""

    __slots__ = ("_count", "_traces")

    def __init__(self) -> None:
        self._traces: dict[int, dict[str, None]] = {}
        self._count = 0

    def note(self, first: int, record: Record) -> None:
        """The group has one record more."""
        trace = traceparent(record)
        if trace is None:
            return
        traces = self._traces.setdefault(first, {})
        if len(traces) < MOST_LINKS and trace not in traces:
            traces[trace] = None
            self._count += 1
        while self._count > MOST_TRACES:
            self._take(next(iter(self._traces)))

    def of(self, fire: Fire) -> list[str]:
        """Those of a group that fired, at most MOST_LINKS, each once. A group that ended is forgotten."""
        shared = fire.goes_on or (fire.window is not None and fire.window.shared)
        traces = self._traces.get(fire.first, {}) if shared else self._take(fire.first)
        first = {} if fire.trace is None else {fire.trace: None}
        return list(first | traces)[:MOST_LINKS]

    def _take(self, first: int) -> dict[str, None]:
        traces = self._traces.pop(first, {})
        self._count -= len(traces)
        return traces


class RecordCounts(dict[str, int]):
    """How many records there were of each kind, for the metrics. `left_out` gets the offsets of the records that are
    neither in a group nor refused, while it is a set. `links` is None without spans."""

    left_out: set[int] | None = None
    links: GroupLinks | None = None


class ColdKeys:
    """`count` is the number of cold groups. The store has none of the keys `absent`; None: it has no cold groups
    (durable/paging.py)."""

    __slots__ = ("absent", "count")

    def __init__(self) -> None:
        self.count = 0
        self.absent: Collection[bytes] | None = None


class Groups:
    """State of all open groups, in the order in which they were opened.

    `touched` holds the newest state (None: closed) of every key since the last commit, `added` the new bag items;
    `events` the fires and refused records in order; `counts` what the metrics want to know, `outcomes` how often
    each clause was true, false or failed; `asked` the groups that a person wants fired, with the offset of their first
    record; `elders` the groups of earlier versions of the rule that finish beside these, oldest first: the limits of
    the partition hold for all together; `idle` the moment since which the time of the last record is kept (see
    Completion.due); `cold` are the open groups that are in the store and not among `states`; `closed` are those of
    `states` whose windows have closed; `early` knows the results of groups that go on; `faults` are the groups at which
    the engine failed. With `notes`, each group that ends is an event, too.
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
        self.cold = ColdKeys()
        self.bytes = 0
        self.behind = False
        self.idle = 0.0
        self.counts = RecordCounts(skipped=0, discarded=0)
        self.counts.links = GroupLinks() if rule.reader.traced else None
        self.outcomes: Counter[tuple[str, str]] = Counter()

    def clock(self, whole: bool) -> ClockState | None:
        """The event clock for the next changelog entry: if it changed since the last one, or `whole`. None without
        windows."""
        return None

    def restore_clock(self, clock: ClockState, origins: dict[str, OriginState]) -> None:
        """Only windows have them."""

    def close_passed(self, now: float) -> None:
        """Only windows are closed by the watermark."""

    def beside(self, newest: "Groups") -> None:
        """These groups finish beside the newest ones of the partition, with which they share what is known of it."""

    def is_open_for(self, record: Record, key: bytes, read: Any) -> bool:
        """Whether the record of this key, as the rule reads it, belongs to an open group. Raises NoTime."""
        return key in self.states

    def origins(self, whole: bool) -> dict[str, OriginState]:
        """The origins for the next changelog entry: those that changed since the last one, or all."""
        return {}

    def open(self, key: bytes | None, record: Record, now: float) -> GroupState | None:
        """A new group for this record, or None when the record was refused."""
        if key is None or len(key) > LONGEST_KEY:
            self.refuse_key(record, key, LONGEST_KEY)
            return None
        if self.cold.absent is not None and key not in self.cold.absent and key not in self.touched:
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
        """Look at this group again at that moment. Its early results are left alone: a record may be half added."""
        if len(self.heap) > 2 * len(self.states) + STALE:
            self._fill_heap()
        elif at < inf:
            heappush(self.heap, (at, key))

    def reopen(self, key: bytes, state: GroupState, past: PastResults | None) -> None:
        """Go on with a group that was cold."""
        self.states[key] = self.touched[key] = state
        self.bytes += state[BYTES]
        if self.rule.completion.timed:
            self._wait(key, self.due(state))
        self.early.goes_on(key, past)

    def give_deadline(self, key: bytes, state: GroupState, deadline: float, now: float) -> bool:
        """The newest record of the group gives this deadline: an instant, or a duration; infinity takes the known one
        away. Returns whether the group times out with that record."""
        before, rule = self.due(state), self.rule.aggregation.deadline
        since = None if rule is None or rule.at else state[OPENED] if rule.since == "first" else now
        state[DEADLINE_SINCE], state[DEADLINE] = (None, None) if deadline == inf else (since, deadline)
        if (at := self.due(state)) < before:
            self._wait(key, at)
        return at <= now

    def fits(self, state: GroupState) -> bool:
        """Whether a state from the store is one of this rule."""
        from_data = self.rule.completion.from_data
        fit_deadline(state, self.width, from_data)
        return sound(state, self.width, from_data)

    def put_first(self, keys: Sequence[bytes]) -> None:
        """These groups make room before all others."""
        self.states = {key: self.states[key] for key in keys} | self.states

    def crowded(self) -> bool:
        """Whether there are as many groups as there may be."""
        elders = sum(len(elder.states) for elder in self.elders) if self.elders else 0
        count = len(self.states) + self.cold.count + elders
        return count >= self.rule.aggregation.max_groups

    @property
    def width(self) -> int:
        """The length of a state."""
        return COLUMNS + len(self.rule.plan.blank)

    def due(self, state: GroupState) -> float:
        """The moment at which this group times out, on the owner's clock; infinity for never."""
        return self.rule.completion.due(state, self.idle)

    def growth(self, key: bytes | None, items: list[Any]) -> int:
        """By how many bytes these items would make the group larger; None is nothing."""
        return sum(form.growth(bag, item) for form, bag, item in self._into(key, items))

    def freed(self, key: bytes | None, items: list[Any]) -> int:
        """The bytes of what would leave the group for these items."""
        return sum(form.freed(bag, item) for form, bag, item in self._into(key, items))

    def _into(self, key: bytes | None, items: list[Any]) -> Iterator[tuple[BagForm, Any, Any]]:
        """The items that are something, each with the form of its bag, and the bag. None: the group is not open."""
        bags = self.bags.get(key) if key is not None else None
        for index, item in enumerate(items):
            if item is not None:
                yield self.rule.plan.bags[index].form, None if bags is None else bags[index], item

    def collect(self, key: bytes, state: GroupState, items: list[Any]) -> None:
        """Put what the bags take of a record into them; None is nothing."""
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
        """Close the group and let its result out, or as `on_timeout` says."""
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
        """The group is a dead letter: no result, and nothing for a handler."""
        self.events.append(timed_out(fire))

    def grew(self, key: bytes, state: GroupState, now: float, before: Any = None) -> None:
        """The group has one record more and goes on: an early result may follow. `before` are the computed fields
        without the record."""
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
        """Let out the result of the group so far, unless the last one has all of its records."""
        state = self.states[key]
        if self.early.has_all(key, state):
            return
        bags = [bag.copy() for bag in self.bags.get(key, ())]
        self.early.revision = self.results(key) + 1
        self.early.sent(key, state)
        self.touched[key] = state
        self.let_out(key, state, bags, EARLY, now, self.emit)

    def tell_due(self, now: float, most: int) -> int:
        """Let out up to `most` early results that are due, and not many more than SLICE_BYTES. Returns how many."""
        many = size = 0
        for key in self.early.due(now) if most > 0 else ():
            size += self.states[key][BYTES]
            self.tell(key, now)
            many += 1
            if many >= most or size > SLICE_BYTES:
                break
        return many

    def results(self, key: bytes) -> int:
        """How many results the group had."""
        return self.early.results(key)

    def repeats(self, key: bytes) -> bool:
        """Whether the last result of the group would say the same as an early one, and the file leaves it out."""
        emit = self.early.emit
        return emit is not None and not emit.final and self.early.has_all(key, self.states[key])

    def let_out(
        self, key: bytes, state: GroupState, bags: Bags, reason: str, now: float, send: Callable[[Fire], object]
    ) -> None:
        """Compute the result and send it. A group that is given up becomes a dead letter with the fields that can be
        computed, and so does one at which a reducer of the user's fails. Raises GroupFault."""
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
        """The result is a dead letter. An early one is left out: the last one will tell."""
        if not letter.fire.goes_on:
            self.events.append(letter)

    def flush(self, key: bytes, now: float) -> None:
        """Close the group for good, and let out what is in no result yet."""
        self.fire(key, "manual", now)

    def emit(self, fire: Fire) -> None:
        """Let the result out, as the file's clauses say. A result with a number that it cannot hold is a dead
        letter."""
        results = self.rule.results
        if names := self.rule.overflowed(fire.values):
            text = f"the records of the group give {' and '.join(names)} {BEYOND}"
            self._give_up(Unhandled(fire, text, 1, "overflow", stage="aggregate"))
        else:
            self.events += [fire] if results is None else results.events(fire, self.outcomes)

    def named(self, key: bytes, first: int, start: int) -> bytes:
        """The name among `states` of the group of this key that began with the record at `first`, in a window that
        begins at `start`."""
        return key

    def end_as(self, key: bytes, reason: str, by: str, now: float) -> None:
        """Close the group as its result says that it was closed; `by` is as in Closing."""
        (self.flush(key, now) if reason == "manual" else self.fire(key, reason, now))

    def forget(self, key: bytes, now: float) -> None:
        """Close the group for good: its records are in no result."""
        self.early.revision = self.results(key) + 1
        state, _ = self.drop(key)
        self._note(key, state, DROPPED, now)

    def _note(self, key: bytes, state: GroupState, reason: str, now: float) -> None:
        if self.notes:
            self.events.append(GroupEnded(self.fired(key, state, reason, now, {})))

    def fired(self, key: bytes, state: GroupState, reason: str, now: float, values: dict[str, Any]) -> Fire:
        """The group that ends now, with these computed fields."""
        made = fired(key, state, reason, now, values, None, self.early.revision, self.early.is_final(reason))
        return replace(made, count=state[ROWS]) if self.rule.aggregation.table else made

    def ending(self, key: bytes, state: GroupState) -> Fire:
        """The group as its next result would name it. The keys of panes have no early results."""
        self.early.revision = self.results(key) + 1
        return self.fired(key, state, "", 0.0, {})

    def current(self) -> Mapping[bytes, GroupState]:
        """The states, without those that only wait to be dropped."""
        return self.states

    def listed(self, key: bytes | None = None) -> Iterator[tuple[bytes, GroupState, Bags]]:
        """The open groups of this key, or all, as people know them: the name in the changelog, the state and the bags
        of each."""
        names = self.states if key is None else self.names(key)
        return ((name, self.states[name], self.bags.get(name, [])) for name in names)

    def names(self, key: bytes) -> list[bytes]:
        """The names of the groups of a key."""
        return [key] if key in self.states else []

    def drop(self, key: bytes) -> tuple[GroupState, Bags]:
        """Close the group without a result; returns what it held."""
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
        """The record counts in no group, and is not a dead letter, because the file says so."""
        if self.counts.left_out is not None:
            self.counts.left_out.add(record.offset())

    def skip(self, record: Record) -> None:
        """As `leave_out`, and count it."""
        self.counts["skipped"] += 1
        self.leave_out(record)

    def refuse_key(self, record: Record, key: bytes | None, longest: int) -> None:
        """It has none, or one of more than `longest` bytes."""
        if key is None:
            self.refuse(record, "key", "no-key", "the record has no key; give it one, or name a field with key:")
        else:
            self.refuse(record, "key", "too-large", f"the key has {len(key)} bytes, more than {longest}")

    def whole(self, state: GroupState, bags: Bags) -> tuple[GroupState, Bags]:
        """What an `until` expression sees of the group of this state: also the groups that become one with it."""
        return state, bags

    def complete(self, key: bytes, state: GroupState, read: Any, now: float) -> None:
        """The group ends with this record: by its count, its `until`, or by a limit."""
        self.end(key, state, self.rule.until is not None and self.rule.until(read), now)

    def end(self, key: bytes, state: GroupState, until: bool, now: float) -> None:
        """As `complete`, with the answer of `until`."""
        if state[COUNT] >= self.rule.completion.count:
            self.fire(key, "count", now)
        elif until:
            self.fire(key, "until", now)
        else:
            self.limit(key, now)

    def limit(self, key: bytes, now: float) -> None:
        """The group holds as many records as it may."""
        if self.rule.parts:
            self.fire(key, "limit", now)
        else:
            self.full.add(key)
            if not self.early.on_change:
                self.grew(key, self.states[key], now)

    def admits(self, key: bytes, state: GroupState | None, record: Record, items: list[Any], now: float) -> bool:
        """Whether there is room for these items of the record in the group and in the partition. Makes room if the file
        says so."""
        aggregation = self.rule.aggregation
        size = self.growth(key, items)
        if self.outgrows(record, size + self.freed(key, items)):
            return False
        if state is not None and state[BYTES] + size > aggregation.max_bytes:
            if not self.rule.parts:
                return self.relieve(record, now, f"max_bytes {aggregation.max_bytes}")
            self.fire(key, "limit", now)
        while self.bytes + size > self.most_bytes:
            if not self.relieve(record, now, f"max_buffered_bytes {aggregation.max_buffered_bytes}"):
                return False
        return True

    def outgrows(self, record: Record, size: int) -> bool:
        """Whether these bytes of one record are more than any group may hold. Then it is refused."""
        most = self.largest
        if size > most:
            self.refuse(
                record, "aggregate", "too-large", f"{size} bytes are more than a group may hold of one record ({most})"
            )
        return size > most

    @property
    def largest(self) -> int:
        """The most bytes that a group may hold of one record."""
        aggregation = self.rule.aggregation
        return min(aggregation.max_bytes, aggregation.max_buffered_bytes, LARGEST_ITEM)

    def relieve(self, record: Record, now: float, limit: str) -> bool:
        """A limit is reached: fire the oldest group, refuse the record, or stop the partition."""
        policy = self.rule.aggregation.on_full
        if policy == "stop":
            raise BufferFull(
                f"{limit} is reached and on_full is stop; raise the limit, or let on_full be fire-oldest or dead-letter"
            )
        if policy == "dead-letter":
            self.refuse(record, "aggregate", "limit", f"{limit} is reached")
            return False
        self.fire_oldest(now)
        return True

    def fire_oldest(self, now: float) -> None:
        """Make room: fire the group that was opened first, of the earliest version that has one."""
        elder = next((elder for elder in self.elders if elder.states), None)
        if elder is None:
            self.fire(next(iter(self.states)), "limit", now)
        else:
            elder.fire_oldest(now)

    @property
    def most_bytes(self) -> int:
        """What the bags may hold, beside those of `elders`."""
        most = self.rule.aggregation.max_buffered_bytes
        return most - sum(elder.bytes for elder in self.elders) if self.elders else most

    def fold(self, state: GroupState, record: Record, value: bytes) -> Callable[[], None] | None:
        """The user's reducers: all of them, or none when one raises. Then the function is returned that refuses the
        record."""
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
        """A group that was opened for a record that is refused never was."""
        if not state[COUNT]:
            del self.states[key]
            self.bags.pop(key, None)
            self.closed.pop(key, None)
            self.early.ended(key)
            self.touched[key] = None

    def next_due(self) -> float:
        """The nearest deadline on the owner's clock, infinity for none; may be early, never late."""
        return min(self.heap[0][0] if self.heap else inf, self.early.next_due())

    def due_at(self, key: bytes) -> float:
        """The moment at which something becomes of this open group: its timeout, or its next early result."""
        return min(self.due(self.states[key]), self.early.due_at(key))

    def expire(self, now: float, most: int) -> int:
        """Fire up to `most` groups that are due, and not many more than SLICE_BYTES; returns how many. `behind` tells
        whether more are due."""
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
        """Deadlines anew, from the groups that are open: after a restore, or when most of them are stale."""
        if self.rule.completion.timed:
            self._fill_heap()
        self.early.rearm()

    def _fill_heap(self) -> None:
        self.heap = [(at, key) for key, state in self.states.items() if (at := self.due(state)) < inf]
        heapify(self.heap)

    def set_back(self, now: float) -> None:
        """The owner's time is `now`. Times of groups that are later were read from a clock that was ahead: they count
        from now on, so a deadline is at most its own duration away. The next commit keeps that."""
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
        """After a restore: the groups that end before the next record, and the reason of each.

        The count or a limit may be lower than when they were filled. A person may have asked for a group: it ends if it
        is still the same one.
        """
        asked = ((key, self.states.get(key), first) for key, first in self.asked.items())
        ending = {key: "manual" for key, state, first in asked if state is not None and state[FIRST] == first}
        return list((ending | self.complete_by_now(self.states)).items())

    def complete_by_now(self, keys: Iterable[bytes]) -> dict[bytes, str]:
        """Those of the groups of these keys that hold as many records as they may, and why they end."""
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
        """The events since the last call."""
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
    """The group that ends now, with these computed fields. The rest is as in Fire."""
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
