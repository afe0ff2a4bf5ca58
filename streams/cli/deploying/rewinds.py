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
    """None for other policies, and with the embedded broker, whose topics end with its run."""
    from sluicegate.streams.config.sections.kafka import EMBEDDED
    from sluicegate.streams.keys import REWIND

    if policy != REWIND or app.kafka["bootstrap.servers"] == EMBEDDED:
        yield None
        return
    from sluicegate.connectors.kafka.history import KafkaHistory
    from sluicegate.streams.operations.replaying.rewind_check import RewindCheck

    with closing(KafkaHistory(app.kafka, app.name)) as history:
        yield RewindCheck(store, app.name, history)
