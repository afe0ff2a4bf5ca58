"""The sealed items of slow handlers. The partition's changelog stores them, so intake continues while they wait.

A commit seals an item: a message in the commit that moves the offset past it, a batch in the commit that closes its
group. The item's id is derived from its number. A later commit writes the number of the attempt that begins; after that
commit the call runs outside of the loop. Its outputs or its failure are part of a later commit. Items of one key run
one after the other. After a crash the same items are restored, with the same ids. An attempt that began and did not end
counts (docs/protocol.md, Seal).
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf

from sluicegate.streams.aggregation.durable.entry import Section
from sluicegate.streams.aggregation.events import Event, Fire, KeptItem
from sluicegate.streams.contracts.ids import in_order
from sluicegate.streams.contracts.record import KeptRecord
from sluicegate.streams.contracts.stores import RowFields
from sluicegate.streams.contracts.values import GroupNumber
from sluicegate.streams.errors import ChangelogIncomplete, ConfigurationError
from sluicegate.streams.handlers.attempts import Bounds, Park, Suspicion, TryAgain, begins
from sluicegate.streams.handlers.failures import ProcessEnded
from sluicegate.streams.handlers.handling import number_of
from sluicegate.streams.handlers.packing import pack, unpack
from sluicegate.streams.handlers.values import Message, raw_key

UNHANDLED = Bounds()
_UNREAD = partial(Message, None)
MOST_ITEMS, MOST_BYTES = 1_000, 8 * 1024 * 1024  # in one partition; at this limit its intake waits


@dataclass(slots=True)
class SealedItem:
    """`packed` is the encoding in the changelog. `attempts` is the number of attempts that began. `state` is waiting,
    begun (it runs after the commit), running, or parked (with this `error`). `rows` are the rows of lookups for the
    attempt. `priority` is None until it is evaluated. `keys` are the keys of its limits, by the names of the limits."""

    number: GroupNumber
    key: bytes
    item: Message | Fire
    packed: bytes
    attempts: int = 0
    ready_at: float = 0.0
    state: str = "waiting"
    error: str = ""
    rows: Mapping[str, RowFields | None] = field(default_factory=dict)
    priority: float | None = None
    keys: dict[str, bytes] = field(default_factory=dict)

    def delayed(self, now: float) -> bool:
        """Whether it waits until a certain time."""
        return self.state == "waiting" and self.ready_at > now


@dataclass(frozen=True, slots=True)
class Parted:
    """Dead letters. Either some messages leave the group and `rest` remains, or the whole item becomes a dead letter
    (`rest` is None)."""

    letters: Sequence[Event]
    rest: Fire | None


FailureVerdict = TryAgain | Park | Parted
Judge = Callable[[SealedItem, Exception], FailureVerdict]
"""Decides what follows a failed call. May raise Halt."""


class Sealed:
    """The sealed items of one partition. Other threads may only append to `results`. `ours` outlives a claim. For each
    item it has two attempt numbers: the last one that began in this process, and the last one in the changelog at that
    time."""

    def __init__(
        self,
        place: tuple[str, int],
        bounds: Bounds = UNHANDLED,
        read: Callable[[KeptRecord], Message] = _UNREAD,
        ours: dict[GroupNumber, tuple[int, int]] | None = None,
    ) -> None:
        self.bounds, self.place, self._read = bounds, place, read
        self.ours = {} if ours is None else ours
        self.by_number: dict[GroupNumber, SealedItem] = {}
        self.results: deque[tuple[SealedItem, Sequence[Event] | Exception]] = deque()
        self.bytes = 0
        self._queues: dict[bytes, deque[GroupNumber]] = {}
        self._items: dict[GroupNumber, bytes | None] = {}
        self._attempts: dict[GroupNumber, int] = {}
        self._parked: dict[GroupNumber, str] = {}
        self._delayed: dict[GroupNumber, SealedItem] = {}  # some may no longer wait
        self.cancelled = threading.Event()
        self.running = 0
        # Items that were running when a process ended: one of them may be the cause.
        self.suspects: set[GroupNumber] = set()
        self.logged = Section()  # the last changes

    @property
    def full(self) -> bool:
        return len(self.by_number) >= MOST_ITEMS or self.bytes >= MOST_BYTES

    def seal(self, item: Message | Fire) -> None:
        """Hold the item. The next commit writes it to the changelog."""
        sealed = self._hold(number_of(item), item, pack(item))
        self._items[sealed.number] = sealed.packed
        self._queues.setdefault(sealed.key, deque()).append(sealed.number)

    def _hold(self, number: GroupNumber, item: Message | Fire, packed: bytes) -> SealedItem:
        key = raw_key(item)
        sealed = self.by_number[number] = SealedItem(number, str(number).encode() if key is None else key, item, packed)
        self.bytes += len(packed)
        return sealed

    def decide(self, judge: Judge, now: float) -> list[Event]:
        """Return the outputs or dead letters of the calls that ended. Items that are retried wait."""
        events: list[Event] = []
        while self.results:
            item, outcome = self.results.popleft()
            self.running -= 1
            self.suspects.discard(item.number)
            if not isinstance(outcome, Exception):
                events += outcome
                self.end(item)
                continue
            events += self._judged(item, judge(item, outcome), now)
        return events

    def _judged(self, item: SealedItem, verdict: FailureVerdict, now: float) -> list[Event]:
        if isinstance(verdict, TryAgain):
            item.ready_at, item.state = now + verdict.pause, "waiting"
            self.delay([item], now)
            item.attempts = self._attempts[item.number] = verdict.attempts  # an outage does not count as an attempt
            return []
        if isinstance(verdict, Park):
            item.state, item.error = "parked", verdict.error
            self.suspects.discard(item.number)
            self._parked[item.number] = verdict.error
            return []
        if verdict.rest is None:
            self.end(item)
        else:
            self._reduce(item, verdict.rest)
        return list(verdict.letters)

    def _reduce(self, item: SealedItem, rest: Fire) -> None:
        """Replace the item by one with fewer messages and retry it at once. A call that named the bad messages counts
        no attempt."""
        self.bytes -= len(item.packed)
        item.item, item.packed, item.state, item.ready_at = rest, pack(rest), "waiting", 0.0
        item.attempts -= 1
        self.bytes += len(item.packed)
        self._items[item.number], self._attempts[item.number] = item.packed, item.attempts

    def end(self, item: SealedItem) -> None:
        """Remove the item. The next commit removes it from the changelog."""
        del self.by_number[item.number]
        self.bytes -= len(item.packed)
        self._items[item.number] = None
        self._delayed.pop(item.number, None)
        self._attempts.pop(item.number, None)
        self._parked.pop(item.number, None)
        self.suspects.discard(item.number)
        queue = self._queues[item.key]
        queue.popleft()
        if not queue:
            del self._queues[item.key]

    def begin(self, judge: Judge, now: float, admitted: Sequence[SealedItem]) -> list[Event]:
        """Let these items run after the next commit. Their keys move to the end of the order. An item that ended too
        many processes is given up."""
        events: list[Event] = []
        for item in admitted:
            if item.number in self.suspects and begins(Suspicion(alone=item.attempts), self.bounds) == "never":
                events += self._judged(item, judge(item, ProcessEnded()), now)
                continue
            item.attempts += 1
            item.state, self._attempts[item.number] = "begun", item.attempts
            self.running += 1
            self._queues[item.key] = self._queues.pop(item.key)
        return events

    def ready(self, now: float, suspects_only: bool) -> list[SealedItem]:
        """The items that may begin: the first item of each key, unless it runs or waits for its back-off. The key whose
        last call began longest ago comes first."""
        heads = [self.by_number[queue[0]] for queue in self._queues.values()]
        able = [item for item in heads if item.state == "waiting" and item.ready_at <= now]
        return [item for item in able if item.number in self.suspects] if suspects_only else able

    def blocks(self, item: object) -> bool:
        """Whether an earlier item of its key waits, so this one must wait too."""
        return isinstance(item, Message | Fire) and (raw_key(item) or b"") in self._queues

    def undecided(self) -> SealedItem | None:
        """The first retried group whose outcome is not decided yet."""
        return next((item for item in self.by_number.values() if item.state == "waiting" and _undecided(item)), None)

    def free(self) -> SealedItem | None:
        """The first item of a key that is waiting and not parked."""
        waiting = [queue[0] for queue in self._queues.values() if self.by_number[queue[0]].state == "waiting"]
        return self.by_number[min(waiting, key=in_order)] if waiting else None

    def took(self, section: Section) -> None:
        """Apply these changes after they are durable."""
        self.replay(section)
        self.settle(True)

    @property
    def parked(self) -> bool:
        return any(item.state == "parked" for item in self.by_number.values())

    def begun(self) -> list[SealedItem]:
        """Mark the items that begin as running, after the commit is durable. Returns them."""
        running = [item for item in self.by_number.values() if item.state == "begun"]
        for item in running:
            item.state = "running"
        return running

    def active(self) -> dict[GroupNumber, int]:
        """The items that run, or will run after the commit, with the number of their attempt."""
        return {item.number: item.attempts for item in self.by_number.values() if item.state in ("begun", "running")}

    @property
    def changed(self) -> bool:
        """Whether there are changes for the changelog, or outcomes of calls."""
        return bool(self._items or self._attempts or self._parked or self.results)

    def set_back(self, now: float) -> None:
        """The owner's clock was ahead; its time is now `now`. Items that wait longer are tried at once."""
        for item in self.by_number.values():
            item.ready_at = min(item.ready_at, now)

    def next_ready(self, now: float) -> float:
        """The time, on the owner's clock, at which the first back-off ends. It does not include items that wait only
        for a thread."""
        for number in [number for number, item in self._delayed.items() if not item.delayed(now)]:
            del self._delayed[number]
        return min((item.ready_at for item in self._delayed.values()), default=inf)

    def delay(self, items: Iterable[SealedItem], now: float) -> None:
        """Note the items that wait until a certain time."""
        self._delayed.update((item.number, item) for item in items if item.delayed(now))

    def changes(self) -> Section:
        """The changes since the last call."""
        self.logged = Section(self._items, self._attempts, self._parked)
        self._items, self._attempts, self._parked = {}, {}, {}
        return self.logged

    def whole(self) -> Section:
        """All items, sealed or parked."""
        return Section(
            {item.number: item.packed for item in self.by_number.values()},
            {item.number: item.attempts for item in self.by_number.values() if item.attempts},
            {item.number: item.error for item in self.by_number.values() if item.state == "parked"},
        )

    def replay(self, section: Section) -> None:
        """Apply one changelog entry. Raises ChangelogIncomplete if an item cannot be read."""
        for number, packed in section.items.items():
            known = self.by_number.pop(number, None)
            if known is not None:
                self.bytes -= len(known.packed)
            if packed is not None:
                try:
                    item = unpack(packed, self.place, number, self._read)
                except Exception as cause:
                    why = f"the sealed record {number} cannot be read: {type(cause).__name__}"
                    raise ChangelogIncomplete(why) from cause
                self._hold(number, item, packed)
        for number, attempts in section.attempts.items():
            if number in self.by_number:
                self.by_number[number].attempts = attempts
        for number, error in section.parked.items():
            if number in self.by_number:
                self.by_number[number].state, self.by_number[number].error = "parked" if error else "waiting", error

    def settle(self, handled: bool) -> None:
        """After the last entry: put the items of each key in order. Raises ConfigurationError if there are items but no
        handler."""
        if not handled and (waiting := [item for item in self.by_number.values() if not _undecided(item)]):
            raise ConfigurationError(
                f"{len(waiting)} messages or groups of {'/'.join(map(str, self.place))} wait for a handler: let it "
                "finish them before you remove the handler"
            )
        self.by_number = {number: self.by_number[number] for number in sorted(self.by_number, key=in_order)}
        self.suspects = {item.number for item in self.by_number.values() if item.attempts and item.state == "waiting"}
        self._queues = {}
        for item in self.by_number.values():
            self._queues.setdefault(item.key, deque()).append(item.number)


def _undecided(item: SealedItem) -> bool:
    return isinstance(item.item, Fire) and item.item.again is not None


def kept(events: Sequence[Event]) -> Section:
    """The changes of a commit without slow handlers: parked items, and items that wait behind them."""
    parked = [event for event in events if isinstance(event, KeptItem)]
    return Section(
        {number_of(event.item): pack(event.item) for event in parked},
        {number_of(event.item): 0 for event in parked},
        {number_of(event.item): event.error for event in parked},
    )
