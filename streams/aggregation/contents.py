"""The contents of the open groups of one partition."""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from sluicegate.streams.aggregation.durable.cold import ColdKeys
from sluicegate.streams.aggregation.durable.entry import ChangelogEntry, ClosedState
from sluicegate.streams.aggregation.early import EarlyResults
from sluicegate.streams.aggregation.events import Decided, Fire, Refused
from sluicegate.streams.aggregation.layout import BYTES, COLUMNS, COUNT, OPENED, Bags, GroupState, fit_deadline, sound
from sluicegate.streams.aggregation.links import GroupLinks
from sluicegate.streams.aggregation.reducers import apply
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.causes import cause
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.reduction import BagForm

LARGEST_ITEM = 3 * 1024 * 1024  # bytes that one record may add: it must fit into a changelog entry
WEIGHT = 64
"""The approximate bytes of a group without bags in the changelog, beside its key."""
AT_KEY = 4
"""The index of the key in a record of `GroupChanges`."""


class GroupChanges(NamedTuple):
    """The changes since the last commit: the newest states by name (None: the group ended), the new bag items, and the
    records of sliding windows, each of which is a group."""

    states: dict[bytes, GroupState | None]
    added: dict[bytes, Bags]
    records: list[Any]


class RecordCounts(dict[str, int]):
    """Counts of records by kind, for the metrics. If `left_out` is a set, it collects the offsets of the records that
    are neither in a group nor refused. `links` is None if spans are off."""

    left_out: set[int] | None = None
    links: GroupLinks | None = None


class GroupContents:
    """The states and bags of open groups, in the order in which the groups were opened.

    `touched` has the newest state of every key that changed since the last commit (None: the group ended). `added` has
    the new bag items. `events` has the fires and refused records, in order. `counts` is for the metrics, and
    `outcomes` counts how often each clause was true, false or failed. `cold` describes the open groups that are in the
    store and not in `states`. `closed` has the groups in `states` whose window has closed. `full` has the groups that
    accept no more records. `early` has the results of groups that stay open. `bytes` is the size of all bags.
    """

    __slots__ = (
        "added",
        "bags",
        "bytes",
        "closed",
        "cold",
        "counts",
        "early",
        "events",
        "full",
        "outcomes",
        "rule",
        "states",
        "touched",
    )

    early: EarlyResults

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.states: dict[bytes, GroupState] = {}
        self.bags: dict[bytes, Bags] = {}
        self.touched: dict[bytes, GroupState | None] = {}
        self.added: dict[bytes, Bags] = {}
        self.events: list[Fire | Decided] = []
        self.full: set[bytes] = set()
        self.closed: dict[bytes, ClosedState] = {}
        self.cold = self.cold_keys(self)
        self.bytes = 0
        self.counts = RecordCounts(skipped=0, discarded=0)
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.counts.links = GroupLinks() if rule.reader.traced else None

    @property
    def number(self) -> int:
        """The number of groups in `states`."""
        return len(self.states)

    @property
    def changed(self) -> bool:
        """Whether a group changed since the last commit."""
        return bool(self.touched)

    def changes(self) -> GroupChanges:
        """Take `touched` and `added`, for the changelog."""
        changes = GroupChanges(self.touched, self.added, [])
        self.touched, self.added = {}, {}
        return changes

    def of_records(self, records: Sequence[Sequence[Any]]) -> Iterator[tuple[bytes, GroupState]]:
        """The groups, with their names, that are `ChangelogEntry.records`. Raises ValueError for records of another
        rule."""
        if records:
            raise ValueError("records of sliding windows")
        return iter(())

    def unwritten(self) -> deque[bytes]:
        """The names with which `write` writes all groups."""
        return deque(self.states)

    def write(self, names: deque[bytes], entry: ChangelogEntry, budget: int) -> int:
        """Add the groups of the first of these names to the entry, and take the names away, until so many bytes are
        spent. Returns the spent bytes."""
        spent = 0
        while names and spent < budget:
            key = names.popleft()
            state = self.state_of(key)
            if state is None:
                continue
            entry.states[key] = state
            bags = self.bags.get(key)
            if bags is not None:
                entry.whole[key] = self.rule.plan.items(bags)
                entry.added.pop(key, None)
            spent += self.weight(key, state)
        return spent

    def weight(self, key: bytes, state: GroupState) -> int:
        """The approximate size of a group in the changelog, in bytes."""
        return WEIGHT + len(key) + int(state[BYTES]) + sum(len(state[fold.slot]) for fold in self.rule.plan.folds)

    def state_of(self, name: bytes) -> GroupState | None:
        """The state of the group of this name in `states`; None if it is not open."""
        return self.states.get(name)

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

    def put_first(self, keys: Sequence[bytes]) -> None:
        """Move these groups to the front of the order. They fire first when room is needed."""
        self.states = {key: self.states[key] for key in keys} | self.states

    @property
    def width(self) -> int:
        """The length of a state."""
        return COLUMNS + len(self.rule.plan.blank)

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

    def named(self, key: bytes, first: int, start: int) -> bytes:
        """The name in `states` of the group of this key whose first record is at offset `first`, in a window that
        begins at `start`."""
        return key

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

    def heirs(self, names: Collection[bytes]) -> dict[bytes, GroupState]:
        """The new states of other groups if an operator removes these groups."""
        return {}

    def forget_older(self, dropped: Sequence[bytes]) -> None:
        """During a restore: an operator dropped these groups. Remove the groups whose removal only they determine."""

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

    def oldest(self) -> float | None:
        """When the oldest open group was opened."""
        first = next(iter(self.states.values()), None)
        return None if first is None else float(first[OPENED])

    def drain(self) -> Iterator[Fire | Decided]:
        """Take the events since the last call."""
        events, self.events = self.events, []
        return iter(events)
