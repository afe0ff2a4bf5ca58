"""The approximate number of different values of a field: HyperLogLog with the estimator of Ertl (2017), which needs no
tables of constants.

The hash of a value is BLAKE2b of its canonical JSON, so it is the same in every process and on every machine. A
register holds a maximum. So the content of a bag depends on the values but not on their order, and merged parts equal
the whole.
"""

from collections import Counter
from hashlib import blake2b
from math import inf, log, sqrt
from typing import Any

from sluicegate.schemas.json import same
from sluicegate.streams.reduction import Bag, BagForm, Getter, Kept, Place, ReadReducer, Shown, bag_of_field

INDEX_BITS = 12
REGISTERS = 1 << INDEX_BITS
"""The standard error is 1.04 / sqrt(REGISTERS): 1.6 %."""
_RANK_BITS = 64 - INDEX_BITS
_ENTRY = 16
FEW = REGISTERS // _ENTRY
"""Up to this number of registers, a bag stores the registers that are not zero; beyond it, one byte for each
register."""


class Registers:
    __slots__ = ("all", "some")

    def __init__(self, some: dict[int, int], every: bytearray | None) -> None:
        self.some, self.all = some, every

    def copy(self) -> "Registers":
        return Registers(self.some.copy(), None if self.all is None else self.all.copy())

    def __len__(self) -> int:
        return len(self.some) if self.all is None else REGISTERS - self.all.count(0)

    def rank(self, index: int) -> int:
        return self.some.get(index, 0) if self.all is None else self.all[index]

    def raise_to(self, index: int, rank: int) -> None:
        if self.all is not None:
            self.all[index] = rank
            return
        self.some[index] = rank
        if len(self.some) > FEW:
            self.all = bytearray(REGISTERS)
            for known, its in self.some.items():
                self.all[known] = its
            self.some = {}

    def ranks(self) -> list[tuple[int, int]]:
        """The registers that are not zero."""
        items = self.some.items() if self.all is None else enumerate(self.all)
        return sorted((index, rank) for index, rank in items if rank)


class _RegistersForm(BagForm):
    """An item is the index of a register, with its rank in the last six bits."""

    def empty(self) -> Registers:
        return Registers({}, None)

    def growth(self, bag: Registers | None, item: int) -> int:
        return _ENTRY if bag is None or (len(bag.some) < FEW and bag.all is None and not bag.rank(item >> 6)) else 0

    def put(self, bag: Registers, item: int) -> int | None:
        index, rank = item >> 6, item & 63
        known = bag.rank(index)
        if rank <= known:
            return None
        grown = self.growth(bag, item)
        bag.raise_to(index, rank)
        return grown

    def items(self, bag: Registers) -> list[int]:
        return [index << 6 | rank for index, rank in bag.ranks()]


_FORM = _RegistersForm()


def register_of(value: Any) -> int:
    """The item of a value."""
    number = int.from_bytes(blake2b(same(value), digest_size=8).digest(), "big")
    rest = number >> INDEX_BITS
    return (number & (REGISTERS - 1)) << 6 | (_RANK_BITS - rest.bit_length() + 1)


def registered(place: Place, get: Getter, shown: Shown, kept: Kept) -> Bag:
    return bag_of_field(_FORM, get, lambda field, offset: register_of(field))


def cardinality(place: Place, shown: Shown) -> ReadReducer:
    index = place.bag
    return lambda state, bags: round(estimate(Counter(rank for _, rank in bags[index].ranks())))


def estimate(ranks: Counter[int]) -> float:
    """The estimate from the number of registers of each rank above zero."""
    total = REGISTERS * _tau(1 - ranks[_RANK_BITS + 1] / REGISTERS)
    for rank in range(_RANK_BITS, 0, -1):
        total = (total + ranks[rank]) / 2
    total += REGISTERS * _sigma(1 - ranks.total() / REGISTERS)
    return REGISTERS * REGISTERS / (2 * log(2) * total)


def _sigma(zeros: float) -> float:
    """The term for the share of registers that are zero."""
    if zeros == 1:
        return inf
    total, weight, before = zeros, 1.0, -1.0
    while total != before:
        zeros *= zeros
        before, total, weight = total, total + zeros * weight, weight * 2
    return total


def _tau(rest: float) -> float:
    """The term for the share of registers below the highest rank."""
    if rest in (0, 1):
        return 0.0
    total, weight, before = 1 - rest, 1.0, inf
    while total != before:
        rest, weight = sqrt(rest), weight / 2
        before, total = total, total - (1 - rest) ** 2 * weight
    return total / 3
