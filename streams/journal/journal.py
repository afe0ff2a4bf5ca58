"""The audit journal: changes of outbox rows, timeouts and dead letters by operators.

The journal is the changelog of a partition that no agent can have, because `~` is not a name of an agent. So every
store keeps it durably.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from sluicegate.streams.aggregation.durable.changelog import AMENDED
from sluicegate.streams.aggregation.durable.entry import Amendment, unpacked
from sluicegate.streams.contracts.stores import Reader, StateStore, Store
from sluicegate.streams.contracts.values import Changes, Claim, Partition
from sluicegate.streams.errors import Fenced
from sluicegate.streams.journal import amending
from sluicegate.streams.journal.amending import Person

ATTEMPTS = 12  # claims of the journal before a command gives up
BACK_OFF = 0.02, 1.0  # seconds: the longest sleep after the first lost claim, doubled each time, and the longest of all


def place(app: str) -> Partition:
    return Partition(app, "~", "audit", 0)


def notes(store: Reader, app: str) -> list[Amendment]:
    """The notes, by time. Raises PersistenceError and ChangelogIncomplete."""
    view = store.read(place(app))
    return [] if view is None else [amendment for _, amendments in _read(view.entries) for amendment in amendments]


def note(store: Store, app: str, person: Person, what: str, *keys: str) -> None:
    """Write a note, before the change is made, that the operator does `what` to these keys. Raises the errors of
    `written`."""
    written(store, app, person, [Amendment(0.0, person.who, what, key, person.why) for key in keys])


def written(
    store: Store, app: str, person: Person, amendments: Sequence[Amendment], claim: Claim | None = None
) -> None:
    """Append these notes under `claim`, or under a new claim when `claim` is None or fenced. Raises PersistenceError,
    and Fenced when other commands claimed the journal ATTEMPTS times in between."""
    for attempt in range(ATTEMPTS):
        try:
            appended(store, claim or begun(store, app, person._replace(token=f"{person.token}-{attempt}")), amendments)
            return
        except Fenced:
            if attempt == ATTEMPTS - 1:
                raise
            claim = None
            back_off(attempt)


def back_off(attempt: int, wait: Callable[[float], object] = time.sleep) -> None:
    """Sleep for a random time, so two commands do not fence each other repeatedly."""
    first, longest = BACK_OFF
    wait(random.uniform(0.0, min(longest, first * 2**attempt)))


def begun(store: StateStore, app: str, person: Person) -> Claim:
    """Claim the journal and fence older claims."""
    return store.claim(place(app), person.token, person.who)


def appended(store: Store, claim: Claim, amendments: Sequence[Amendment]) -> Claim:
    """Append these notes with the time of the claim, and drop notes older than AMENDED. Raises Fenced and
    PersistenceError."""
    view = store.read(claim.partition)
    old = claim.store_time - AMENDED
    kept = (
        number for number, page in _read(view.entries if view else ()) if any(amendment.at > old for amendment in page)
    )
    changes = Changes(0, keep_from=next(kept, claim.last + 1))
    return amending.appended(
        store, claim, changes, amended=[replace(amendment, at=claim.store_time) for amendment in amendments]
    )


def _read(entries: Sequence[bytes]) -> Iterator[tuple[int, list[Amendment]]]:
    for blob in entries:
        entry = unpacked(blob)
        yield entry.number, entry.amended
