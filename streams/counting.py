"""The number of records for each value of a field."""

from collections.abc import Callable
from typing import Any

import msgspec

from sluicegate.schemas.json import encode, key_text, same
from sluicegate.streams.reduction import Bag, BagForm, Getter, Kept, Place, ReadReducer, Shown, bag_of_field

ENTRY = 16
"""Bytes of a value beside its text: its count, and the characters around it in a result."""


class _CountsForm(BagForm):
    """Each value, as the bytes of a text, with its count. An item is a value that counts once, or a value and a count;
    the count is negative for a subtraction. `repeats`: equal values take up their bytes each time."""

    __slots__ = ("repeats",)

    def __init__(self, repeats: bool = False) -> None:
        self.repeats = repeats

    def empty(self) -> dict[bytes, int]:
        return {}

    def growth(self, bag: dict[bytes, int] | None, item: bytes) -> int:
        return 0 if bag and item in bag and not self.repeats else len(item) + ENTRY

    def put(self, bag: dict[bytes, int], item: Any) -> int | None:
        value, number = (item, 1) if type(item) is bytes else item
        before = bag.get(value, 0)
        after = bag[value] = before + number
        if not after:
            del bag[value]
        size = len(value) + ENTRY
        return number * size if self.repeats else size * ((after > 0) - (before > 0))

    def items(self, bag: dict[bytes, int]) -> list[Any]:
        return [[value, number] for value, number in bag.items()]

    def without(self, item: bytes) -> list[Any]:
        return [item, -1]


_FORM, _REPEATS = _CountsForm(), _CountsForm(repeats=True)


def text_of(value: Any) -> bytes:
    """The text of a value, as in the key of a group: text is unchanged, any other value is canonical JSON."""
    return value.encode() if type(value) is str else key_text(value)


def counted(place: Place, get: Getter, shown: Shown, kept: Kept) -> Bag:
    return bag_of_text(_FORM, get)


def bag_of_text(form: BagForm, get: Getter) -> Bag:
    """A bag of the field's values as text."""
    return bag_of_field(form, get, lambda field, offset: text_of(field))


def counts(place: Place, shown: Shown) -> ReadReducer:
    """The count by value, in the order of the values."""
    index = place.bag
    return lambda state, bags: {value.decode(): number for value, number in sorted(bags[index].items())}


# -- rows that can be subtracted ---------------------------------------------------------------------------------------


def numbers_of_rows(place: Place, get: Getter, shown: Shown, kept: Kept) -> Bag:
    """The numbers of a field. The minimum and the maximum are read from the remaining ones."""

    def item(field: Any, offset: int) -> bytes | None:
        return encode(field) if type(field) is int or type(field) is float else None

    return bag_of_field(_FORM, get, item)


def best_of_rows(better: Callable[..., Any]) -> Callable[[Place, Shown], ReadReducer]:
    def read(place: Place, shown: Shown) -> ReadReducer:
        index = place.bag
        return lambda state, bags: better(map(msgspec.json.decode, bags[index]), default=None)

    return read


def distinct_of_rows(place: Place, get: Getter, shown: Shown, kept: Kept) -> Bag:
    return bag_of_field(_FORM, get, lambda field, offset: same(field))


def number_of_values(place: Place, shown: Shown) -> ReadReducer:
    index = place.bag
    return lambda state, bags: len(bags[index])


def collected_rows(place: Place, get: Getter, shown: Shown, kept: Kept) -> Bag:
    """Values of the field, or whole rows. Equal values are one entry with a count."""
    if place.reducer.field is not None:
        return bag_of_field(_REPEATS, get, lambda field, offset: encode(field))
    return Bag(_REPEATS, lambda record, value, offset: value)


def list_of_rows(place: Place, shown: Shown) -> ReadReducer:
    """The values in the order of first arrival."""
    index, value = place.bag, msgspec.json.decode if place.reducer.field is not None else shown
    return lambda state, bags: [value(item) for item, number in bags[index].items() for _ in range(number)]
