"""A log, a clock and a store for each test."""

from collections.abc import Iterator

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams import failpoints
from tests.unit.engine import scene
from tests.unit.engine.driver import Log, ManualClock, memory


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def log() -> Log:
    return scene.a_log()


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    return memory(clock)


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    failpoints.arm({})
    scene.deadly.clear()
