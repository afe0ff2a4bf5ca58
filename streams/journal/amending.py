"""Changes by an operator to the state of a partition: one claim, and one commit with one changelog entry."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from sluicegate.streams.aggregation.durable.entry import Amendment, ChangelogEntry, ColdState, packed
from sluicegate.streams.contracts.stores import StateStore, Store
from sluicegate.streams.contracts.values import NOBODY, Changes, Claim, OutboxRow, Partition, PartitionView
from sluicegate.streams.errors import ConfigurationError

Said = Mapping[str, Any]
"""Fields of a changelog entry."""
Still = Callable[[PartitionView], bool]
MadeRows = Callable[[Claim, PartitionView], Sequence[OutboxRow]]


Leaving = tuple[Sequence[bytes], ColdState]
"""The keys of cold groups to remove, and the state of the cold groups after that."""


class Person(NamedTuple):
    """The operator that makes a change, and the reason. `token` is the random token of the claim."""

    who: str
    why: str
    token: str


def amend(
    store: Store,
    partition: Partition,
    person: Person,
    what: str,
    key: str,
    still: Still | None = None,
    rows: MadeRows | None = None,
    cold: Callable[[PartitionView], Leaving | None] | None = None,
    **fields: Any,
) -> Claim:
    """Append an entry with these fields, and a note that the operator did `what` to `key`. The claim fences the owner
    of the partition. The owner then claims again and reads the entry. `still` checks under the claim that the change is
    still possible. `rows` makes outbox rows for the same commit; the owner sends them. `cold` selects the cold groups
    that the change removes.

    Raises ConfigurationError if there is nothing to change. Raises Fenced if another process claimed in between;
    nothing was changed. Raises PersistenceError if it is unknown whether the change was made; read the state again.
    """
    claim = store.claim(partition, person.token, NOBODY)
    view = store.read(partition) if still or rows or cold else None
    if still and (view is None or not still(view)):
        raise ConfigurationError(f"{what} {key}: it ended meanwhile; nothing was changed")
    outbox = rows(claim, view) if rows is not None and view is not None else ()
    leaving = cold(view) if cold is not None and view is not None else None
    drop, fields["cold"] = leaving or ((), None)
    also = Changes(claim.offset, claim.epoch, trying=claim.trying, outbox=outbox, drop_cold=drop)
    return appended(
        store, claim, also, amended=[Amendment(claim.store_time, person.who, what, key, person.why)], **fields
    )


def appended(
    store: StateStore, claim: Claim, also: Changes | None = None, more: Sequence[Said] = (), **fields: Any
) -> Claim:
    """Commit an entry with these fields, and one entry for each of `more`, together with `also`. `also` must not have
    entries. Raises Fenced and PersistenceError."""
    entries = [
        replace(ChangelogEntry(number, claim.store_time, {}, {}, {}, {}, {}), **entry)
        for number, entry in enumerate((fields, *more), claim.last + 1)
    ]
    changes = also or Changes(claim.offset, claim.epoch, trying=claim.trying)
    return store.commit(claim, replace(changes, entries=[packed(entry, compress=False) for entry in entries]))
