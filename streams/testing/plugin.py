"""The pytest plugin: one fixture. It imports nothing until a test uses it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from sluicegate.streams.agent import App
    from sluicegate.streams.contracts.stores import Store
    from sluicegate.streams.testing.driver import TestDriver
    from sluicegate.streams.testing.stores import StoreSetup

MakeDriver = Callable[..., "TestDriver"]


@pytest.fixture
def sluicegate_driver() -> Iterator[MakeDriver]:
    """`sluicegate_driver(app_or_path, workers=1, partitions=4, store=None, setup=())` makes a
    sluicegate.streams.testing.driver.TestDriver, closed after the test."""
    from sluicegate.streams.testing.driver import TestDriver

    with ExitStack() as stack:

        def make(
            app: "App | str | Path",
            workers: int = 1,
            partitions: int = 4,
            store: "Store | None" = None,
            setup: "StoreSetup | Sequence[StoreSetup]" = (),
        ) -> TestDriver:
            driver = TestDriver(app, workers, partitions, store=store, setup=setup)
            stack.callback(driver.close)
            return driver

        yield make
