"""Percentiles of a field, within a relative error: numbers are counted in buckets whose width grows with the number.

A power of two is divided into 128 buckets of equal width, as in HdrHistogram. So a bucket is found without a logarithm,
and is the same on every machine. With more than MOST_BUCKETS buckets, each two neighbours are joined, as in exponential
histograms of OpenTelemetry. The content of a bag depends on the numbers but not on their order, so merged parts equal
the whole.
"""

from fractions import Fraction
from math import ceil, frexp, inf, ldexp
from typing import Any

from sluicegate.streams.reduction import Bag, BagForm, Getter, Kept, Option, Place, ReadReducer, Shown, bag_of_field

PERCENTILE = Option("p", "The percentile: 50 is the median.", 99, 0, 100, whole=False)
FINE = 7
"""A power of two has 2**FINE buckets: the lower bound of a bucket is at most 1/128 below its numbers."""
MOST_BUCKETS = 2_048
ENTRY = 16
"""Bytes of a bucket with its count."""
_ORIGIN = 1 << 22
"""Added to a bucket of numbers above zero, so the buckets of all valid numbers are greater than zero."""


class Buckets:
    """The count of each bucket. The last `shift` bits of the bucket numbers are removed."""

    __slots__ = ("counts", "shift")

    def __init__(self, counts: dict[int, int], shift: int) -> None:
        self.counts, self.shift = counts, shift

    def copy(self) -> "Buckets":
        return Buckets(self.counts.copy(), self.shift)

    def __len__(self) -> int:
        return len(self.counts)

    def coarsen(self, shift: int) -> None:
        """Join neighbours until the bucket numbers have lost this many bits."""
        counts: dict[int, int] = {}
        for bucket, number in self.counts.items():
            joined = _joined(bucket, shift - self.shift)
            counts[joined] = counts.get(joined, 0) + number
        self.counts, self.shift = counts, shift


def _joined(bucket: int, shift: int) -> int:
    return bucket >> shift if bucket >= 0 else -(-bucket >> shift)


class _BucketsForm(BagForm):
    """An item is a bucket, or a bucket with a count and the number of bits that its number has lost."""

    def empty(self) -> Buckets:
        return Buckets({}, 0)

    def growth(self, bag: Buckets | None, item: int) -> int:
        return 0 if bag is not None and _joined(item, bag.shift) in bag.counts else ENTRY

    def put(self, bag: Buckets, item: Any) -> int | None:
        fine, number, shift = (item, 1, 0) if type(item) is int else item
        before = len(bag)
        if shift > bag.shift:
            bag.coarsen(shift)
        bucket = _joined(fine, bag.shift)
        bag.counts[bucket] = bag.counts.get(bucket, 0) + number
        while len(bag) > MOST_BUCKETS:
            bag.coarsen(bag.shift + 1)
        return (len(bag) - before) * ENTRY

    def items(self, bag: Buckets) -> list[Any]:
        return [[bucket << bag.shift, number, bag.shift] for bucket, number in bag.counts.items()]


_FORM = _BucketsForm()


def bucket_of(value: Any) -> int:
    """The bucket of a number: 0 for zero, and negative for a negative number."""
    if not value:
        return 0
    size = abs(value)
    try:
        part, power = frexp(size)
        fine = int(part * (2 << FINE))
    except OverflowError:  # an integer beyond the doubles
        power = size.bit_length()
        fine = size >> (power - FINE - 1)
    bucket = _ORIGIN + (power << FINE) + fine
    return bucket if value > 0 else -bucket


def value_of(bucket: int, shift: int) -> float:
    """The number of the bucket that is closest to zero. Infinity beyond the doubles."""
    if not bucket:
        return 0.0
    fine = (abs(bucket) << shift) - _ORIGIN - (1 << FINE)
    power, part = fine >> FINE, (1 << FINE) + (fine & ((1 << FINE) - 1))
    try:
        size = ldexp(part, power - FINE - 1)
    except OverflowError:
        size = inf
    return size if bucket > 0 else -size


def bucketed(place: Place, get: Getter, shown: Shown, kept: Kept) -> Bag:
    return bag_of_field(_FORM, get, _item)


def _item(value: Any, offset: int) -> int | None:
    kind = type(value)  # of JSON: a boolean's is bool
    return bucket_of(value) if kind is int or kind is float else None


def percentile(place: Place, shown: Shown) -> ReadReducer:
    """The lowest number that this percentage of the records does not exceed. None without numbers."""
    index, share = place.bag, Fraction(str(place.reducer.option or 0)) / 100

    def read(state: Any, bags: list[Any]) -> float | None:
        bag: Buckets = bags[index]
        rank = max(1, ceil(share * sum(bag.counts.values())))
        for bucket in sorted(bag.counts):
            rank -= bag.counts[bucket]
            if rank <= 0:
                return value_of(bucket, bag.shift)
        return None

    return read
