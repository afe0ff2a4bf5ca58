"""A handler of the shared buffer that ends its process is found, without blaming what was in hand beside it."""

from collections.abc import Iterator
from typing import Any

import pytest

from sluicegate.connectors.memory.buffer import MemoryBuffer
from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent, Aggregation, App, Destination, Handler, Outbox, Reducer
from sluicegate.streams.aggregation.group_faults import DEATHS
from sluicegate.streams.engine.build_shared import gate_of
from sluicegate.streams.handlers.attempts import COMPANY
from sluicegate.streams.shared.shared_leases import SharedLeases
from sluicegate.streams.shared.shared_records import buffer_name
from sluicegate.streams.testing.driver import TestDriver
from tests.contracts.buffer.given import entries
from tests.mutation.twins import without
from tests.unit.engine.driver import Driver
from tests.unit.engine.scene import a_log
from tests.unit.testing import sharing

COMPUTE = (Reducer("total", "sum", "v"), Reducer("all", "collect"))
RULE = Aggregation(count=1, compute=COMPUTE)
LEASE = 10


@pytest.fixture(autouse=True)
def _reset() -> Iterator[None]:
    sharing.reset()
    yield
    sharing.reset()


def an_agent(**how: Any) -> Agent:
    handler = Handler(("tests.unit.testing.sharing:total",), **how)
    return Agent("a", ("in",), RULE, Destination("out"), "dead", scope="shared", handler=handler)


def driven(**how: Any) -> TestDriver:
    return TestDriver(App("app", "memory://", (an_agent(**how),), outbox=Outbox()))


def times(driver: TestDriver, leases: int) -> None:
    for _ in range(leases * (LEASE + 1)):
        driver.advance(1.0)  # leases are renewed meanwhile


def offered(driver: TestDriver) -> None:
    """Groups before and after the one that kills, in hand together."""
    sharing.deadly.add(3)
    sharing.failing[:] = ["outage"]
    for value in range(8):
        driver.send("in", {"v": value}, key=f"k{value}", partition=value % 4)


@pytest.mark.parametrize("attempts", [1, 4])
def test_what_ends_its_process_is_a_dead_letter_in_the_end_and_no_other_is(attempts: int) -> None:
    with driven(attempts=attempts) as driver:
        offered(driver)
        times(driver, 40)
        [letter] = driver.dead_letters()
        totals = sorted(output.value["total"] for output in driver.read("out"))
    deaths = max(DEATHS, attempts)
    assert (letter.value["all"], letter.headers["sluicegate-dead-reason"]) == ([{"v": 3}], "handler-failed")
    assert totals == [0, 1, 2, 4, 5, 6, 7]
    assert sharing.called[3] == COMPANY + deaths
    assert int(letter.headers["sluicegate-dead-attempts"]) == deaths


@pytest.mark.parametrize("alone", [True, False], ids=["", "twin"])
def test_what_waits_in_hand_meanwhile_does_not_die_with_it(monkeypatch: pytest.MonkeyPatch, alone: bool) -> None:
    """Groups that fail, and wait for their next attempt."""
    if not alone:
        whole = SharedLeases.give_back
        kept = lambda self, jobs: None if self.suspect() else whole(self, jobs)  # noqa: E731
        monkeypatch.setattr(SharedLeases, "give_back", kept)
    sharing.broken.update({0, 1, 2})
    with driven(attempts=3, backoff_first=3600.0, backoff_most=3600.0) as driver:
        offered(driver)
        times(driver, 40)
        assert {letter.value["all"][0]["v"] for letter in driver.dead_letters()} == ({3} if alone else {0, 1, 2, 3})
        sharing.broken.clear()
        driver.crash()
        times(driver, 40)
        assert sorted(output.value["total"] for output in driver.read("out")) == ([0, 1, 2] if alone else []) + [
            4,
            5,
            6,
            7,
        ]


def test_without_suspicion_it_is_called_without_end() -> None:
    with without("shared-suspects"), driven(attempts=1) as driver:
        offered(driver)
        times(driver, 40)
        assert (driver.dead_letters(), sharing.called[3] > 30) == ([], True)


def test_then_stop_halts_and_a_corrected_handler_is_called() -> None:
    with driven(attempts=1, then="stop") as driver:
        offered(driver)
        times(driver, 40)
        assert any("ProcessEnded" in trouble for trouble in driver.troubles())
        for _ in range(3):
            driver.crash()
            times(driver, 3)
            assert any("`then` is stop" in trouble for trouble in driver.troubles())
        sharing.deadly.clear()
        driver.crash()
        times(driver, 40)
        assert sorted(output.value["total"] for output in driver.read("out")) == list(range(8))


class Broken(Exception):
    pass


def kept(store: MemoryStore, error: bool) -> int:
    """How often a batch counts as handed out after so many processes that ended otherwise with it in hand."""
    log = a_log()
    log.append("in", 0, b"k", b'{"v": 1}')
    agent = an_agent()
    for _ in range(COMPANY + DEATHS + 1):
        sharing.failing[:] = ["outage"]
        turns = iter(range(30))

        def stop(turns: Iterator[int] = turns) -> bool:
            ended = next(turns, None) is None
            if ended and error:
                raise Broken
            return ended

        worker = Driver(agent, store, log).give(0).worker
        try:
            worker.run(stop)
        except Broken:
            assert error
    [batch] = store.buffer.due(buffer_name("app", "a"), gate_of(agent))
    return batch.attempts


@pytest.mark.parametrize("error", [False, True], ids=["stop", "error"])
@pytest.mark.parametrize("twin", [False, True], ids=["", "twin"])
def test_a_process_that_ends_by_a_stop_or_an_error_does_not_count_against_what_it_had(
    monkeypatch: pytest.MonkeyPatch, error: bool, twin: bool
) -> None:
    if twin:
        whole = MemoryBuffer.release
        monkeypatch.setattr(MemoryBuffer, "release", lambda self, name, batch, attempts=None: whole(self, name, batch))
    assert (kept(MemoryStore(), error) == 1) is not twin


def test_what_was_never_called_does_not_count_either() -> None:
    agent, store, log = an_agent(), MemoryStore(), a_log()
    name, gate = buffer_name("app", "a"), gate_of(agent)
    batches = store.buffer.insert_and_seal(name, entries(1), gate).batches
    for _ in range(COMPANY + DEATHS):
        fires = Driver(agent, store, log).worker._processor.fires
        assert fires is not None
        fires.leases.take(batches)
        fires.stop()
        batches = store.buffer.due(name, gate)
    assert [batch.attempts for batch in batches] == [1]
