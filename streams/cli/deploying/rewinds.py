"""The check of `--open rewind`, which reads the input topics."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from sluicegate.streams.agent import App

if TYPE_CHECKING:
    from sluicegate.streams.contracts.stores import Store
    from sluicegate.streams.operations.replaying.rewind_check import RewindCheck


@contextmanager
def rewinds(app: App, store: "Store", policy: str | None) -> Iterator["RewindCheck | None"]:
    """The check; None for other policies, and with the embedded broker, whose topics end with its run."""
    from sluicegate.streams.keys import REWIND

    if policy != REWIND or app.embedded:
        yield None
        return
    from sluicegate.connectors.kafka.clusters.routed import open_history
    from sluicegate.streams.operations.replaying.rewind_check import RewindCheck

    with closing(open_history(app.brokers, app.name)) as history:
        yield RewindCheck(store, app.name, history)
