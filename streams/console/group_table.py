"""The open groups of one agent in columns, so that a million of them fit into the memory of the supervisor."""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf
from typing import Any, NamedTuple

from sluicegate.streams.agent import Agent
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.operations.groups.contents import place_of
from sluicegate.streams.operations.groups.open_groups import OpenGroup, waits_for

KEPT_ORDERS = 4  # selections that are kept for the next pages, 4 bytes a group each
NO_WINDOW = -(1 << 63)
ORDERS = ("age", "key", "count", "bytes", "due")


class GroupFilter(NamedTuple):
    """A selection of groups and its order. `search` is a part of the key in lower case, `place` a partition as
    TOPIC/NUMBER, `waits` a word of `waits_for`; empty: any. `late`: only groups that are overdue. `older`: only groups
    of at least this age in seconds."""

    search: str = ""
    place: str = ""
    waits: str = ""
    late: bool = False
    older: int = 0
    order: str = "age"
    descending: bool = True

    @property
    def grows(self) -> bool:
        """Whether more groups match while the reading grows older, so that no selection is kept."""
        return self.late or self.older > 0


class GroupTable:
    """The groups that were read, without their values: about 100 bytes and two times the key for each. `unlisted` is
    the number of open groups that were only counted. `waits` are the words of `waits_for` that occur. Ages and
    deadlines are relative to the time of the reading."""

    def __init__(self, agent: Agent) -> None:
        self.unlisted = 0
        self.waits: list[str] = []
        self._agent = agent
        self._places: list[tuple[Partition, str]] = []  # with the owner
        self._place, self._wait = array("I"), array("B")
        self._numbers = {name: array("q") for name in ("count", "first", "last", "bytes", "window")}
        self._times = {name: array("d") for name in ("age", "due")}
        self._keys, self._key_ends = bytearray(), array("Q")
        self._texts, self._text_ends = bytearray(), array("Q")
        self._orders: dict[GroupFilter, Sequence[int]] = {}

    def __len__(self) -> int:
        return len(self._place)

    def add(self, groups: Iterable[OpenGroup]) -> None:
        """Adds the groups of one partition and one owner."""
        numbers, times, wait = self._numbers, self._times, self._wait
        before: tuple[Partition, str] | None = None
        for group in groups:
            if before != (group.partition, group.owner):
                before = group.partition, group.owner
                self._places.append(before)
            word = waits_for(group, self._agent)
            if word not in self.waits:
                self.waits.append(word)
            self._place.append(len(self._places) - 1)
            wait.append(self.waits.index(word))
            numbers["count"].append(group.records)
            numbers["first"].append(group.first)
            numbers["last"].append(group.last)
            numbers["bytes"].append(group.bytes)
            numbers["window"].append(NO_WINDOW if group.window is None else group.window.start)
            times["age"].append(group.age)
            times["due"].append(inf if group.fires_in is None else group.fires_in)
            self._keys += group.key
            self._key_ends.append(len(self._keys))
            self._texts += _folded(group.key)
            self._text_ends.append(len(self._texts))

    def selected(self, wanted: GroupFilter, age: float) -> Sequence[int]:
        """The numbers of the selected groups in their order. `age` is the age of the reading in seconds."""
        if wanted.grows:
            return self._selected(wanted, age)
        kept = self._orders.get(wanted)
        if kept is None:
            kept = self._selected(wanted, age)
            for old in list(self._orders)[: max(0, len(self._orders) + 1 - KEPT_ORDERS)]:
                self._orders.pop(old, None)
            self._orders[wanted] = kept
        return kept

    def _selected(self, wanted: GroupFilter, age: float) -> Sequence[int]:
        rows: Iterable[int] = self._with(wanted.search.encode()) if wanted.search else range(len(self))
        if wanted.place:
            places, codes = (
                self._place,
                {at for at, partition in enumerate(self._places) if place_of(partition[0]) == wanted.place},
            )
            rows = [row for row in rows if places[row] in codes]
        if wanted.waits:
            wait, code = self._wait, self.waits.index(wanted.waits) if wanted.waits in self.waits else -1
            rows = [row for row in rows if wait[row] == code]
        if wanted.late:
            due = self._times["due"]
            rows = [row for row in rows if due[row] < age]
        if wanted.older:
            ages, least = self._times["age"], wanted.older - age
            rows = [row for row in rows if ages[row] >= least]
        return array("I", sorted(rows, key=self._order(wanted.order), reverse=wanted.descending))

    def _order(self, name: str) -> Callable[[int], Any]:
        column = self._times.get(name) or self._numbers.get(name)
        return self._key if name == "key" else column.__getitem__ if column else int

    def _with(self, text: bytes) -> Iterator[int]:
        """The groups whose key has the text, in any case of its letters."""
        texts, ends = self._texts, self._text_ends
        at = texts.find(text)
        while at >= 0:
            row = bisect_right(ends, at)
            if at + len(text) <= ends[row]:
                yield row
                at = texts.find(text, ends[row])
            else:  # the text lies across two keys
                at = texts.find(text, at + 1)

    def _key(self, row: int) -> bytes:
        return bytes(self._keys[self._key_ends[row - 1] if row else 0 : self._key_ends[row]])

    def group(self, row: int) -> OpenGroup:
        """The group without its values and its window."""
        (partition, owner), due = self._places[self._place[row]], self._times["due"][row]
        count, first, last, size = (self._numbers[name][row] for name in ("count", "first", "last", "bytes"))
        age, fires_in = self._times["age"][row], None if due == inf else due
        return OpenGroup(partition, owner, self._key(row), count, first, last, size, age, fires_in, {})

    def window(self, row: int) -> int | None:
        """The start of its window, in milliseconds since 1970."""
        start = self._numbers["window"][row]
        return None if start == NO_WINDOW else start

    def waits_of(self, row: int) -> str:
        return self.waits[self._wait[row]]


def _folded(key: bytes) -> bytes:
    return key.lower() if key.isascii() else key.decode(errors="replace").casefold().encode()
