"""What every unit test leaves as it found it."""

import logging
from collections.abc import Iterator

import pytest
import structlog

from sluicegate.streams.hints import name_file
from tests import judged
from tests.unit.engine import handlers


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """A test that runs a command in this process configures the logs of the whole process."""
    handlers, level, before = logging.root.handlers[:], logging.root.level, structlog.get_config()
    yield
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)
    structlog.configure(**before)


@pytest.fixture(autouse=True)
def _handlers_without_calls() -> None:
    """Tests of many folders, and the simulation, call the handlers of the engine's tests, and leave what they were
    called with."""
    handlers.reset()


@pytest.fixture(autouse=True)
def _no_file() -> Iterator[None]:
    """A command that runs in this process names its file in the messages of the whole process."""
    yield
    name_file("FILE")


@pytest.fixture(scope="session", autouse=True)
def _judged_by_the_schemas() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        judged.install(patch)
        yield


@pytest.fixture(autouse=True)
def _results_keep_to_the_schemas() -> Iterator[None]:
    judged.wrong.clear()
    yield
    assert judged.wrong == []
