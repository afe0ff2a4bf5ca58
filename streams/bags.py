"""Bags that store items unchanged: a list, and a set of encoded values."""

from collections.abc import Callable
from typing import Any

from sluicegate.schemas.json import encode
from sluicegate.streams.reduction import BagForm


def encoded_length(item: Any) -> int:
    return len(encode(item))


class ListForm(BagForm):
    """All items, in their order."""

    __slots__ = ("weight",)

    def __init__(self, weight: Callable[[Any], int]) -> None:
        self.weight = weight

    def empty(self) -> list[Any]:
        return []

    def growth(self, bag: list[Any] | None, item: Any) -> int:
        return self.weight(item)

    def put(self, bag: list[Any], item: Any) -> int | None:
        bag.append(item)
        return self.weight(item)

    def items(self, bag: list[Any]) -> list[Any]:
        return list(bag)

    def extend(self, bag: list[Any], items: Any) -> None:
        bag.extend(items)


class _SetForm(BagForm):
    """Equal items are stored once, in the order of arrival."""

    __slots__ = ()

    def empty(self) -> dict[bytes, None]:
        return {}

    def growth(self, bag: dict[bytes, None] | None, item: bytes) -> int:
        return 0 if bag and item in bag else len(item)

    def put(self, bag: dict[bytes, None], item: bytes) -> int | None:
        if item in bag:
            return None
        bag[item] = None
        return len(item)

    def items(self, bag: dict[bytes, None]) -> list[bytes]:
        return list(bag)

    def extend(self, bag: dict[bytes, None], items: Any) -> None:
        bag.update(dict.fromkeys(items))


SET = _SetForm()
