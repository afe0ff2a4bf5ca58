"""What is said of a partition's state beside its records: by a person, whose claim commits one entry and leaves, or by
its owner."""

from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec.structs import replace

from sluicegate.streams.aggregation.entry import Amendment, ChangelogEntry, packed
from sluicegate.streams.contracts.stores import StateStore, Store
from sluicegate.streams.contracts.values import NOBODY, Changes, Claim, Partition, PartitionView
from sluicegate.streams.errors import ConfigurationError

Still = Callable[[PartitionView], bool]


class Person(NamedTuple):
    """Who changes something, and why; `token` is the random one of this claim."""

    who: str
    why: str
    token: str


def amend(
    store: Store, partition: Partition, person: Person, what: str, key: str, still: Still | None = None, **said: Any
) -> Claim:
    """Append an entry with these fields, and who did `what` to `key` and why. The owner of the partition is fenced by
    it: it claims again and reads it. `still` looks, under the claim, whether there is anything to change. Raises
    ConfigurationError when there is not, Fenced when somebody claimed in between (nothing changed), PersistenceError
    (unknown: look again)."""
    claim = store.claim(partition, person.token, NOBODY)
    view = store.read(partition) if still else None
    if still and (view is None or not still(view)):
        raise ConfigurationError(f"{what} {key}: it ended meanwhile; nothing was changed")
    return appended(store, claim, amended=[Amendment(claim.store_time, person.who, what, key, person.why)], **said)


def appended(store: StateStore, claim: Claim, also: Changes | None = None, **said: Any) -> Claim:
    """One entry with these fields committed, and nothing else but `also` (changes that say nothing of entries). Raises
    Fenced and PersistenceError."""
    entry = replace(ChangelogEntry(claim.last + 1, claim.store_time, {}, {}, {}, {}, {}), **said)
    changes = also or Changes(claim.offset, claim.epoch, trying=claim.trying)
    return store.commit(claim, replace(changes, entries=[packed(entry, compress=False)]))
