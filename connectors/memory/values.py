"""The application's values in the memory store. A unit of work stages changes, and its commit applies them."""

from collections.abc import Iterator, MutableMapping
from copy import deepcopy
from typing import Any

from sluicegate.streams.contracts.messages import OutboxMessage

_GONE: Any = object()


class Staged(MutableMapping[str, Any]):
    """`values` with staged changes, which only `apply` writes. Values are copied when they are read or set."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values
        self._staged: dict[str, Any] = {}
        self.messages: list[OutboxMessage] = []
        """Messages that the same commit adds to the outbox."""

    def __getitem__(self, name: str) -> Any:
        value = self._staged.get(name, self._values.get(name, _GONE))
        if value is _GONE:
            raise KeyError(name)
        return deepcopy(value)

    def __setitem__(self, name: str, value: Any) -> None:
        self._staged[name] = deepcopy(value)

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        self._staged[name] = _GONE

    def __iter__(self) -> Iterator[str]:
        names = dict.fromkeys(self._values) | dict.fromkeys(self._staged)
        return iter([name for name in names if self._staged.get(name) is not _GONE])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def apply(self) -> None:
        for name, value in self._staged.items():
            if value is _GONE:
                self._values.pop(name, None)
            else:
                self._values[name] = value
        self._staged = {}
