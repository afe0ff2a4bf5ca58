"""Reads the rows that the items of a commit need, and decides what a missing row means."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from sluicegate.schemas.json import encode
from sluicegate.streams.agent import Lookup
from sluicegate.streams.aggregation.events import Fire
from sluicegate.streams.contracts.leased import Transactions
from sluicegate.streams.contracts.stores import LookupKey, RowFields, RowLookups, TopicPartition
from sluicegate.streams.contracts.values import GroupNumber
from sluicegate.streams.errors import HandlerFailed
from sluicegate.streams.handlers.failures import Failures
from sluicegate.streams.handlers.handling import number_of
from sluicegate.streams.handlers.processor import Item
from sluicegate.streams.handlers.values import Message
from sluicegate.streams.lookups.tables import TopicTables

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds between two lookups of a row for which a record waits. The pause doubles, except for a topic: its rows are in
this process."""

Keys = tuple[LookupKey | None, ...]
"""The key of each lookup, in the order of the file. None: the message or the result has no key for it."""


class FoundRows(NamedTuple):
    """The rows of one item, by lookup name. `missing` is the first lookup that requires a row and has none; None if
    there is no such lookup."""

    fields: Mapping[str, RowFields | None]
    missing: Lookup | None


class LookedUp:
    """The rows that were read for one commit. A row is encoded once, even if many messages need it."""

    def __init__(self, lookups: Sequence[Lookup], rows: Sequence[Mapping[LookupKey, RowFields]]) -> None:
        self._lookups, self._rows = lookups, rows
        self._encoded: list[dict[LookupKey | None, bytes]] = [{} for _ in lookups]
        self._names = [encode(lookup.name) + b":" for lookup in lookups]
        self.must_be_there = any(lookup.missing != "null" for lookup in lookups)

    def rows_of(self, keys: Keys) -> FoundRows:
        fields: dict[str, RowFields | None] = {}
        missing = None
        for lookup, rows, key in zip(self._lookups, self._rows, keys, strict=True):
            row = fields[lookup.name] = None if key is None else rows.get(key)
            if row is None and missing is None and lookup.missing != "null":
                missing = lookup
        return FoundRows(fields, missing)

    def missing(self, keys: Keys) -> Lookup | None:
        """As `rows_of(keys).missing`."""
        for lookup, rows, key in zip(self._lookups, self._rows, keys, strict=True):
            if lookup.missing != "null" and (key is None or key not in rows):
                return lookup
        return None

    def text(self, keys: Keys) -> bytes:
        """The rows as members of a JSON object, separated by commas."""
        if len(keys) == 1:
            return self._encoded[0].get(keys[0]) or self._encode(0, keys[0])
        return b",".join([self._encoded[at].get(key) or self._encode(at, key) for at, key in enumerate(keys)])

    def _encode(self, at: int, key: LookupKey | None) -> bytes:
        text = self._names[at] + encode(None if key is None else self._rows[at].get(key))
        self._encoded[at][key] = text
        return text


class StoredRows(RowLookups, Transactions, Protocol):
    """A store with rows and with transactions for reading them."""


class Lookups:
    """The lookups of an agent, with the store and the tables that have their rows."""

    def __init__(self, lookups: Sequence[Lookup], store: StoredRows, tables: TopicTables | None = None) -> None:
        """`tables` has the topics of lookups."""
        self.lookups, self._store, self._tables = lookups, store, tables

    def read(self, session: Any, wanted: Sequence[Keys]) -> LookedUp:
        """The rows with these keys, read in the transaction of `session`. Rows of topics come from memory. Raises
        LookupFailed."""
        columns = zip(*wanted, strict=True) if wanted else ((),) * len(self.lookups)
        distinct = [dict.fromkeys(key for key in keys if key is not None) for keys in columns]
        rows = [
            self._rows(session, lookup, list(keys)) if keys else {}
            for lookup, keys in zip(self.lookups, distinct, strict=True)
        ]
        return LookedUp(self.lookups, rows)

    def read_apart(self, wanted: Sequence[Keys]) -> LookedUp:
        """As `read`, in a separate transaction. Topics need none."""
        if all(lookup.kind == "topic" for lookup in self.lookups):
            return self.read(None, wanted)
        with self._store.transaction() as session:
            return self.read(session, wanted)

    def _rows(self, session: Any, lookup: Lookup, keys: Sequence[LookupKey]) -> Mapping[LookupKey, RowFields]:
        if lookup.kind == "topic" and self._tables is not None:
            return self._tables.look_up(lookup, keys)
        return self._store.look_up(session, lookup, keys)


def as_key(value: object) -> LookupKey | None:
    """Convert a value to a key: text and whole numbers. None for any other value."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if isinstance(value, int) or value.is_integer() else None


def says(lookup: Lookup) -> str:
    """The error text of a missing row, without its key."""
    waited = f" within {lookup.wait:g} s" if lookup.missing == "wait" else ""
    return f"lookup {lookup.name} found no row in {lookup.source}{waited}"


class WaitsForRows:
    """The records and completed groups of one worker that wait for a row, by partition. No later item is committed
    before them.

    The waiting times are in memory only, so a new owner starts from zero.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: dict[TopicPartition, dict[GroupNumber, tuple[float, int]]] = {}

    def over(
        self, place: TopicPartition, item: Message | Fire, lookup: Lookup, failures: Failures | None = None
    ) -> None:
        """Returns if the item has waited long enough for a dead letter. Otherwise raises HandlerFailed. With
        `failures`, a message is then handled alone at the next attempt."""
        now, waiting, number = self._clock(), self._since.setdefault(place, {}), number_of(item)
        since, looks = waiting.get(number, (now, 0))
        remaining = since + lookup.wait - now
        if remaining <= 0:
            return
        waiting[number] = since, looks + 1
        if failures is not None and isinstance(item, Message):
            failures.apart.add(item.offset)
        longest = FIRST_PAUSE if lookup.kind == "topic" else LONGEST_PAUSE
        pause = min(FIRST_PAUSE * 2**looks, longest, remaining)
        record = item.first if isinstance(item, Fire) else item.offset
        what = f"{place[0]}/{place[1]}/{record}: {'the group: ' if isinstance(item, Fire) else ''}{says(lookup)} yet"
        raise HandlerFailed(f"{what}; looks again in {pause:.3g} s", pause)

    def committed(self, place: TopicPartition, items: Sequence[Item]) -> None:
        """Remove these committed items."""
        if place in self._since:
            self.ended(place, [number_of(item) for item in items if isinstance(item, Message | Fire)])

    def ended(self, place: TopicPartition, numbers: Sequence[GroupNumber]) -> None:
        """Remove the items with these numbers: they no longer wait."""
        waiting = self._since.get(place, {})
        for number in numbers:
            waiting.pop(number, None)

    def forget(self, place: TopicPartition) -> None:
        self._since.pop(place, None)
