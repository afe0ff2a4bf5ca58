"""What a run checks before it starts."""

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

from sluicegate.streams.agent import Agent, Aggregation, App, Destination
from sluicegate.streams.cli.opening.waiting import System, wait_for
from sluicegate.streams.cli.workers.wiring import judge_store, judge_topics, topics_of
from sluicegate.streams.contracts.values import Level
from sluicegate.streams.errors import (
    ConfigurationError,
    NotAuthenticated,
    NotPermitted,
    PersistenceError,
    SystemNotReady,
)


def app(store: str = "redis://host", **fields: object) -> App:
    return App("app", store, (), **fields)


STORE = System("the store", ("memory://",), "store")


class Clock:
    """Time that passes only in pauses."""

    def __init__(self) -> None:
        self.now, self.pauses = 0.0, list[float]()

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def failing(times: int, error: Exception) -> Callable[[], str]:
    rest = [error] * times

    def attempt() -> str:
        if rest:
            raise rest.pop()
        return "there"

    return attempt


@pytest.mark.parametrize("kind", [NotAuthenticated, NotPermitted])
def test_a_refused_certificate_password_or_right_is_not_tried_again(kind: type[SystemNotReady]) -> None:
    clock = Clock()
    with pytest.raises(kind, match=r"^refused$"):
        wait_for(30.0, failing(1, kind("refused")), clock.pause, clock, system=STORE)
    assert clock.pauses == []


@pytest.mark.parametrize("error", [PersistenceError("refused"), SystemNotReady("refused")])
def test_a_system_that_comes_up_in_time_is_waited_for(error: Exception) -> None:
    clock = Clock()
    assert wait_for(30.0, failing(5, error), clock.pause, clock, system=STORE) == "there"
    assert clock.pauses == [0.1, 0.2, 0.4, 0.8, 1.6]


def test_a_system_that_does_not_come_up_is_not_ready_and_says_why() -> None:
    clock = Clock()
    with pytest.raises(SystemNotReady, match=r"connection refused \(tried for 5 s\)"):
        wait_for(5.0, failing(1000, PersistenceError("connection refused")), clock.pause, clock, system=STORE)
    assert clock.now == pytest.approx(5.0)


def test_a_wrong_configuration_is_not_tried_again() -> None:
    clock = Clock()
    with pytest.raises(ConfigurationError):
        wait_for(5.0, failing(1, ConfigurationError("no such option")), clock.pause, clock, system=STORE)
    assert clock.pauses == []


def test_an_unmigrated_store_names_the_command() -> None:
    with pytest.raises(SystemNotReady, match=r"sluicegate migrate FILE.*make the tables"):
        judge_store(app(), ["make the tables"], Level("durable", ()))


LEVELS = ("volatile", "lossy", "durable")


@pytest.mark.parametrize("accepted", LEVELS)
@pytest.mark.parametrize("name_of_level", LEVELS)
def test_a_level_below_the_accepted_one_is_refused(name_of_level: str, accepted: str) -> None:
    settings = app(accept_level=accepted)
    level = Level(name_of_level, ("appendfsync everysec",))
    if LEVELS.index(name_of_level) >= LEVELS.index(accepted):
        judge_store(settings, (), level)
    else:
        with pytest.raises(
            SystemNotReady, match=rf"{name_of_level}.*appendfsync everysec.*accept_level: {name_of_level}"
        ):
            judge_store(settings, (), level)


def test_memory_needs_no_acceptance() -> None:
    judge_store(app("memory://"), (), Level("volatile", ("memory",)))


def test_every_missing_topic_is_named_with_the_command() -> None:
    judge_topics({"a": 4, "b": 1})
    with pytest.raises(SystemNotReady, match=r"no such topic: b, c; .*sluicegate topics FILE --create"):
        judge_topics({"a": 4, "c": None, "b": None})


def test_a_missing_input_that_looks_like_an_output_is_named_with_it() -> None:
    with pytest.raises(SystemNotReady, match=r"^no such topic: minuts \(did you mean minutes\?\), orders; make what"):
        judge_topics({"minuts": None, "orders": None, "minutes": 4}, {"minutes", "iot.dead"})


def test_inputs_outputs_and_dead_letters_are_needed() -> None:
    one = Agent("a", ("in1", "in2"), Aggregation(count=1), Destination("out"), "dead")
    two = Agent("b", ("out",), Aggregation(count=1), Destination("end"), "dead")
    assert topics_of([one, two]) == ["dead", "end", "in1", "in2", "out"]


def test_a_workers_process_imports_neither_the_files_reader_nor_the_port() -> None:
    code = "import sluicegate.streams.cli.child, sys, json; print(json.dumps(sorted(sys.modules)))"
    modules = json.loads(
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout
    )
    assert "sluicegate.streams.engine.worker" in modules
    heavy = {"pydantic", "yaml", "prometheus_client", "opentelemetry"}
    heavy |= {"sluicegate.streams.config", "sluicegate.streams.observe.http"}
    assert not heavy & set(modules)
