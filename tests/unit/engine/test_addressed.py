"""A record that `dead retry` sends back is taken by the agent that failed, and by no other agent of its topic."""

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Reducer
from sluicegate.streams.contracts.headers import RETRIED_FOR
from sluicegate.streams.contracts.record import Headers
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.journal.amending import Person
from sluicegate.streams.observe.metrics import METRICS
from sluicegate.streams.operations import explaining
from sluicegate.streams.operations.dead.dead_letters import Retried, letters, retry
from sluicegate.streams.reading import gate
from sluicegate.streams.reading.addressed import addressee, for_us
from tests.unit.engine.driver import Driver, Log, LogRecord, ManualClock, memory
from tests.unit.engine.rebuilding import rebuild as rebuilt
from tests.unit.engine.rebuilding import state
from tests.unit.engine.scene import a_log, an_agent, dead, feed
from tests.unit.engine.test_dead_letters import InLog

SPEND = an_agent("spend", to="spent", count=2, since_first=600.0)
LEDGER = an_agent("ledger", to="booked", compute=(Reducer("price", "sum", "price"),))
PERSON = Person("me@here", "mended", "hand")


@pytest.fixture
def log() -> Log:
    return a_log("in", "spent", "booked", "dead")


@pytest.fixture
def agents(log: Log, store: MemoryStore, clock: ManualClock) -> list[Driver]:
    """Both have read one record, which `ledger` cannot count."""
    feed(log, ("bob", 5))
    return [Driver(agent, store, log, clock).give(0).turns() for agent in (SPEND, LEDGER)]


def retried(log: Log, store: MemoryStore, agents: list[Driver]) -> None:
    wanted = list(letters(log.topics["dead"][0], "app", ["ledger"]))
    assert retry(store, "app", InLog(log), wanted, PERSON) == Retried(1, 0, [])
    for driver in agents:
        driver.turns().later(0.5).turns()


def counted(store: MemoryStore) -> int:
    """Records in the open group of `spend`."""
    _, groups = state(SPEND, store)
    return sum(group[0] for group in groups.values())


def test_only_the_agent_that_failed_takes_it_again(agents: list[Driver], log: Log, store: MemoryStore) -> None:
    retried(log, store, agents)
    assert counted(store) == 1
    assert dead(log) == [("0", "missing-field"), ("1", "missing-field")]
    [sample] = [metric for metric in agents[0].worker.reports.of(0.0).metrics if metric[0] == "records_passed_over"]
    assert sample == ("records_passed_over", (), 1)
    assert "records_passed_over" in {metric.name for metric in METRICS}


def test_twin_without_the_header_s_meaning_the_other_agent_counts_it_twice(
    agents: list[Driver], log: Log, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "for_us", lambda records, partition, proof: records)
    retried(log, store, agents)
    assert log.topics["spent"][0]  # the group of two ended with one record


@pytest.mark.parametrize("honours", [True, False])
def test_a_rebuild_passes_over_it_too(
    agents: list[Driver],
    log: Log,
    store: MemoryStore,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    honours: bool,
) -> None:
    retried(log, store, agents)
    before = state(SPEND, store)
    lost = memory(clock)
    if not honours:
        monkeypatch.setattr(gate, "for_us", lambda records, partition, proof: records)
    rebuilt(SPEND, lost, log, clock)
    assert (state(SPEND, lost) == before) is honours


@pytest.mark.parametrize("honours", [True, False])
def test_explain_does_not_count_it(
    agents: list[Driver], log: Log, store: MemoryStore, monkeypatch: pytest.MonkeyPatch, honours: bool
) -> None:
    retried(log, store, agents)
    feed(log, ("bob", 7))
    agents[0].turns()
    explanation = explaining.output(log.topics["spent"][0], explaining_id(log))
    assert explanation is not None
    assert explanation.span is not None
    if not honours:
        monkeypatch.setattr(gate, "for_us", lambda records, partition, proof: records)
    made = explaining.explained("app", SPEND, explanation, explanation.span, log.topics["in"][0], 0)
    assert (made.offsets == [0, 2]) is honours


def explaining_id(log: Log) -> str:
    return dict(log.topics["spent"][0][0].h or ())["sluicegate-id"].decode()  # type: ignore[union-attr]


MINE = Partition("app", "spend", "in", 0)


def a_record(*headers: tuple[str, bytes | None]) -> LogRecord:
    return LogRecord("in", 0, 0, b"k", b"v", list(headers) or None, 0, 0)


@pytest.mark.parametrize(
    ("headers", "taken"),
    [
        ([], True),
        ([("traceparent", b"x")], True),
        ([(RETRIED_FOR, addressee("app", "spend"))], True),
        ([(RETRIED_FOR, addressee("app", "spend2"))], False),
        ([(RETRIED_FOR, addressee("app2", "spend"))], False),
        ([("traceparent", b"x"), (RETRIED_FOR, None)], False),
    ],
)
def test_the_header_names_the_app_and_the_agent(headers: Headers, taken: bool) -> None:
    plain, other = a_record(), a_record(*headers)
    assert list(for_us([plain, other, plain], MINE)) == ([plain, other, plain] if taken else [plain, plain])


def test_a_record_whose_headers_cannot_be_read_is_taken() -> None:
    class Unreadable(LogRecord):
        def headers(self) -> Headers | None:
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no text")

    strange, other = Unreadable("in", 0, 0, b"k", b"v", None, 0, 0), a_record((RETRIED_FOR, b"other/agent"))
    assert list(for_us([strange, other], MINE)) == [strange]


def test_records_without_headers_are_handed_on_as_they_are() -> None:
    records = [a_record() for _ in range(3)]
    assert for_us(records, MINE) is records
