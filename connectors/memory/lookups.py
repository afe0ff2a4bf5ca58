"""Rows of `lookup:` in the memory store: the value of the table's name is a mapping of keys to rows."""

from collections.abc import Mapping, Sequence

from sluicegate.connectors.lookups import by_key, name_of
from sluicegate.connectors.sessions import MemorySession
from sluicegate.streams.agent import Lookup
from sluicegate.streams.contracts.stores import LookupKey, RowFields


def look_up(session: MemorySession, lookup: Lookup, keys: Sequence[LookupKey]) -> Mapping[LookupKey, RowFields]:
    """Same as `RowLookups.look_up`."""
    rows = session.values.get(lookup.source, {})
    wanted = {name_of(key) for key in keys}
    return by_key(
        lookup,
        keys,
        [(key, [row.get(name) for name in lookup.fields]) for key, row in rows.items() if name_of(key) in wanted],
    )
