"""The values of a field in the first or in the last records of a group.

If groups are merged, the offset of its record precedes each value, because records arrive in any order.
"""

from bisect import insort
from collections.abc import Callable
from operator import itemgetter
from typing import Any

from sluicegate.streams.bags import encoded_length
from sluicegate.streams.reduction import Bag, BagForm, Getter, Kept, Option, Place, ReadReducer, Shown, bag_of_field

NUMBER = Option("n", "The most values of the list.", 5, 1, 1000)
_offset = itemgetter(0)


class _EndForm(BagForm):
    """Up to a number of items: the items with the lowest offsets, or with the highest ones. `merged`: an item is the
    offset and the value. Otherwise it is the value, and items arrive in the order of their offsets."""

    __slots__ = ("_last", "_merged", "_most")

    def __init__(self, most: int, last: bool, merged: bool) -> None:
        self._most, self._last, self._merged = most, last, merged

    def empty(self) -> list[Any]:
        return []

    def growth(self, bag: list[Any] | None, item: Any) -> int:
        if not bag or len(bag) < self._most:
            return encoded_length(item)
        freed = self.freed(bag, item)
        return encoded_length(item) - freed if freed else 0

    def freed(self, bag: list[Any] | None, item: Any) -> int:
        leaving = self._leaving(bag, item) if bag and len(bag) >= self._most else None
        return 0 if leaving is None or bag is None else encoded_length(bag[leaving])

    def _leaving(self, bag: list[Any], item: Any) -> int | None:
        """The index of the item that leaves a full bag. None: the bag does not accept this item."""
        index = 0 if self._last else -1
        takes = self._last if not self._merged else (item[0] > bag[index][0]) is self._last
        return index if takes else None

    def put(self, bag: list[Any], item: Any) -> int | None:
        size = encoded_length(item)
        if len(bag) >= self._most:
            leaving = self._leaving(bag, item)
            if leaving is None:
                return None
            size -= encoded_length(bag.pop(leaving))
        if self._merged:
            insort(bag, item, key=_offset)
        else:
            bag.append(item)
        return size

    def items(self, bag: list[Any]) -> list[Any]:
        return list(bag)


def first_values(place: Place, get: Getter, shown: Shown, kept: Kept) -> Bag:
    return _of_end(place, get, last=False)


def last_values(place: Place, get: Getter, shown: Shown, kept: Kept) -> Bag:
    return _of_end(place, get, last=True)


def _of_end(place: Place, get: Getter, last: bool) -> Bag:
    item: Callable[[Any, int], Any] = _with_offset if place.merged else lambda field, offset: field
    return bag_of_field(_EndForm(int(place.reducer.option or 1), last, place.merged), get, item)


def _with_offset(field: Any, offset: int) -> list[Any]:
    return [offset, field]


def values_of(place: Place, shown: Shown) -> ReadReducer:
    index = place.bag
    if place.merged:
        return lambda state, bags: [value for _, value in bags[index]]
    return lambda state, bags: bags[index]
