"""A file, its topics in memory, its store on SQLite, a worker of its first agent, and `sluicegate dead` on them."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import structlog
from typer.testing import CliRunner, Result

from sluicegate.connectors import open_store
from sluicegate.streams.cli import main
from sluicegate.streams.cli.opening.files import loaded
from tests.unit.cli.log_topics import LogTopics
from tests.unit.engine.driver import Driver, ManualClock, distinct


@contextmanager
def without_tracebacks() -> Iterator[None]:
    """The log without its level debug: a traceback with the locals of a database's driver takes seconds to print."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
    try:
        yield
    finally:
        structlog.configure(**before)


class Scene:
    """The worker runs in turns. `write` changes the file, `restart` takes it over."""

    def __init__(self, folder: Path, text: str) -> None:
        self.folder, self.log, self.clock = folder, LogTopics.log, ManualClock()
        self.write(text)
        self.app = loaded(str(folder / "app.yaml"))
        self.store = open_store(self.app.store, self.app.folder)
        self.store.migrate()
        self.driver = self.started()

    def write(self, text: str) -> None:
        (self.folder / "app.yaml").write_text(text)

    def started(self) -> Driver:
        return Driver(self.app.agents[0], self.store, self.log, self.clock, "finish").give(0)

    def restart(self) -> None:
        self.app = loaded(str(self.folder / "app.yaml"))
        self.driver = self.started()

    def dead(self, what: str, *more: str) -> Result:
        return CliRunner().invoke(main, ["dead", what, str(self.folder / "app.yaml"), *more])

    def listed(self) -> list[dict[str, Any]]:
        return list(json.loads(self.dead("ls", "--all", "--json").stdout)["dead"])

    def later(self, times: int = 20) -> None:
        """The store's clock is the machine's: an agent with concurrency needs some turns more than its pauses say."""
        for _ in range(times):
            self.driver.later(2).turns(4)

    def outputs(self, topic: str = "out") -> list[Any]:
        return [json.loads(message.v or b"null") for message in distinct(self.log, topic)]
