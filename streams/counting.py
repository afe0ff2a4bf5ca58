"""The number of records for each value of a field."""

from typing import Any

from sluicegate.schemas.json import key_text
from sluicegate.streams.reduction import Bag, BagForm, Getter, Kept, Place, ReadReducer, Shown, bag_of_field

ENTRY = 16
"""Bytes of a value beside its text: its number, and what a result writes around it."""


class _CountsForm(BagForm):
    """Each value, as the bytes of a text, with its number. An item is a value that counts once, or a value and a
    number."""

    __slots__ = ()

    def empty(self) -> dict[bytes, int]:
        return {}

    def growth(self, bag: dict[bytes, int] | None, item: bytes) -> int:
        return 0 if bag and item in bag else len(item) + ENTRY

    def put(self, bag: dict[bytes, int], item: Any) -> int | None:
        value, number = (item, 1) if type(item) is bytes else item
        before = bag.get(value, 0)
        bag[value] = before + number
        return 0 if before else len(value) + ENTRY

    def items(self, bag: dict[bytes, int]) -> list[Any]:
        return [[value, number] for value, number in bag.items()]


_FORM = _CountsForm()


def text_of(value: Any) -> bytes:
    """As the key of a group: a text as it is, all else as canonical JSON."""
    return value.encode() if type(value) is str else key_text(value)


def counted(place: Place, get: Getter, shown: Shown, kept: Kept) -> Bag:
    return bag_of_text(_FORM, get)


def bag_of_text(form: BagForm, get: Getter) -> Bag:
    """Of values of the field as text."""
    return bag_of_field(form, get, lambda field, offset: text_of(field))


def counts(place: Place, shown: Shown) -> ReadReducer:
    """By value, in the order of the values."""
    index = place.bag
    return lambda state, bags: {value.decode(): number for value, number in sorted(bags[index].items())}
