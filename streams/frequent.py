"""The most frequent values of a field: the summary of Misra and Gries. Summaries can be merged.

A bag has up to ten times as many values as requested, and at least 100. A value without room lowers the count of every
other value by one, and `lost` counts these. So the count of a value in the bag is at most `lost` below its number of
records, and `lost` is less than the number of records divided by the number of values in the bag. With fewer values all
counts are exact.
"""

from typing import Any

from sluicegate.streams.counting import ENTRY, bag_of_text
from sluicegate.streams.reduction import Bag, BagForm, Getter, Kept, Option, Place, ReadReducer, Shown

TOP = Option("n", "The most values of the list.", 10, 1, 100)
TIMES, LEAST = 10, 100
"""The number of values in a bag for each requested one, and the minimum."""


class Ranking:
    __slots__ = ("counts", "lost")

    def __init__(self, counts: dict[bytes, int], lost: int) -> None:
        self.counts, self.lost = counts, lost

    def copy(self) -> "Ranking":
        return Ranking(self.counts.copy(), self.lost)

    def __len__(self) -> int:
        return len(self.counts)


class _RankingForm(BagForm):
    """An item is a value that counts once; a value and its count; or a number by which each other value is lowered."""

    def __init__(self, room: int) -> None:
        self._room = room

    def empty(self) -> Ranking:
        return Ranking({}, 0)

    def growth(self, bag: Ranking | None, item: bytes) -> int:
        return 0 if bag is not None and item in bag.counts else len(item) + ENTRY

    def put(self, bag: Ranking, item: Any) -> int | None:
        if type(item) is int:
            bag.lost += item
            return 0
        value, number = (item, 1) if type(item) is bytes else item
        counts = bag.counts
        if value in counts:
            counts[value] += number
            return 0
        if len(counts) < self._room:
            counts[value] = number
            return len(value) + ENTRY
        less = min(number, min(counts.values()))
        grown = -sum(len(known) + ENTRY for known, its in counts.items() if its == less)
        bag.lost += less
        bag.counts = {known: its - less for known, its in counts.items() if its > less}
        if number > less:
            bag.counts[value] = number - less
            grown += len(value) + ENTRY
        return grown

    def items(self, bag: Ranking) -> list[Any]:
        return [*([bag.lost] if bag.lost else []), *([value, number] for value, number in bag.counts.items())]


def ranked(place: Place, get: Getter, shown: Shown, kept: Kept) -> Bag:
    return bag_of_text(_RankingForm(max(TIMES * int(place.reducer.option or 1), LEAST)), get)


def ranking(place: Place, shown: Shown) -> ReadReducer:
    """The values with the highest counts. Of equal counts, the lower value comes first."""
    index, most = place.bag, int(place.reducer.option or 1)

    def read(state: Any, bags: list[Any]) -> list[dict[str, Any]]:
        bag: Ranking = bags[index]
        first = sorted(bag.counts.items(), key=lambda pair: (-pair[1], pair[0]))[:most]
        return [{"value": value.decode(), "count": number, "error": bag.lost} for value, number in first]

    return read
