"""A commit that contains the application's writes: handlers run inside the store's transaction."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from msgspec.structs import replace

from sluicegate.streams import failpoints
from sluicegate.streams.aggregation.events import Event
from sluicegate.streams.contracts.stores import UnitOfWork
from sluicegate.streams.contracts.values import Changes, Claim
from sluicegate.streams.errors import ConfigurationError, NotCommitted, SluicegateError
from sluicegate.streams.handlers.handling import decided
from sluicegate.streams.handlers.processor import Item, RecordProcessor
from sluicegate.streams.outbox.rows import Rows


class PreparedCommit(NamedTuple):
    """A commit that is ready for the store. `events` are counted when it is durable. `items` were handled."""

    changes: Changes
    events: Sequence[Event]
    items: Sequence[Item]


def in_session(
    store: UnitOfWork,
    claim: Claim,
    processor: RecordProcessor,
    items: Sequence[Item],
    changes: Callable[[Sequence[Event]], Changes],
    rows: Rows,
) -> tuple[Claim, PreparedCommit]:
    """Process the items in the transaction that commits their outputs and their `changes`. Items that failed for good
    are left out, and the rest is handled again. The store may run `work` more than once, so it changes nothing that a
    later run reads. Raises HandlerFailed, and the errors of `commit_with`."""
    commits: list[PreparedCommit] = []
    called: list[Any] = []  # not empty: the handlers ran, so an error may come from them

    def work(session: Any) -> Changes:
        called.append(session)
        rows.number = claim.number
        events = processor.run(items, rows.fire_id, session, (claim.partition.topic, claim.partition.number))
        commits.append(
            PreparedCommit(replace(changes(events), outbox=rows.make(events)), decided(items, events), items)
        )
        failpoints.hit("before-commit")
        return commits[-1].changes

    while True:
        called.clear()
        try:
            return store.commit_with(claim, work), commits[-1]
        except NotCommitted as error:
            processor.refused(items, error)
        except Exception as error:
            ended = isinstance(error, ConfigurationError)  # the handler ended the transaction by itself
            if not called or (not ended and isinstance(error, SluicegateError | failpoints.Failpoint)):
                raise
            processor.failed(error if ended else processor.probed(error, partial(_undone, store, claim)), items)


class _Undo(Exception):
    """Rolls a transaction back."""


def _undone(store: UnitOfWork, claim: Claim, call: Callable[[Any], object]) -> None:
    """Make the call with a session, and roll its writes back."""

    def work(session: Any) -> Changes:
        call(session)
        raise _Undo

    with suppress(_Undo):
        store.commit_with(claim, work)
