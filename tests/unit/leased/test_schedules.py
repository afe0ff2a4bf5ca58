"""The schedules of the file as rows of the store: one for each, whoever starts and however often."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import App, RecurringMessage
from sluicegate.streams.cli import main
from sluicegate.streams.config import load
from sluicegate.streams.contracts.leased_values import Timeout
from sluicegate.streams.errors import PersistenceError
from sluicegate.streams.outbox.schedules import arranged

NOW = datetime(2026, 11, 28, 13, tzinfo=UTC)
NIGHTLY = RecurringMessage("nightly", "0 2 * * *", "reports.due", '{"report": "sales"}', "all")
OFTEN = RecurringMessage("often", "15m", "ticks")
FILE = """\
app: shop
kafka: {bootstrap.servers: "localhost:9092"}
store: sqlite:///state.db
dead_letters: shop.dead
schedules:
  nightly: {every: 0 2 * * * Europe/Vienna, topic: reports.due, key: all, value: {report: sales}}
agents:
  reports:
    from: reports.due
    to: {topic: reports}
tests:
  two nights:
    - advance: 1d
    - expect: {topic: reports, key: all, value: {report: sales}}
    - expect_nothing: reports
    - advance: 1d
    - expect: {topic: reports, key: all, value: {report: sales}}
    - expect_nothing: reports
"""


class Scheduled:
    """The timeouts of a store whose clock a test moves."""

    def __init__(self) -> None:
        self.now = NOW
        self.timeouts = MemoryStore(clock=lambda: self.now.timestamp()).timeouts

    def start(self, *schedules: RecurringMessage, app: str = "shop") -> "Scheduled":
        arranged(self.timeouts, App(app, "memory://", (), schedules=schedules), self.now)
        return self

    def later(self, time: timedelta) -> list[str]:
        """The topics of what became due, after it was emitted."""
        self.now += time
        batch = self.timeouts.get_batch()
        assert self.timeouts.emit(batch) == len(batch)
        return [timeout.destination for timeout in batch]

    @property
    def rows(self) -> list[tuple[str, datetime]]:
        return [(timeout.destination, timeout.due_at) for timeout in self.timeouts.find()]


def test_a_new_schedule_has_a_row_for_its_next_time() -> None:
    made = Scheduled().start(NIGHTLY, OFTEN)
    assert made.rows == [("ticks", NOW + timedelta(minutes=15)), ("reports.due", datetime(2026, 11, 29, 2, tzinfo=UTC))]
    [_, timeout] = made.timeouts.find()
    assert (timeout.key, timeout.value, timeout.every) == (b"all", b'{"report": "sales"}', "0 2 * * *")


def test_a_process_that_starts_later_changes_nothing() -> None:
    made = Scheduled().start(NIGHTLY, OFTEN)
    before = made.rows
    made.now += timedelta(minutes=5)
    assert made.start(NIGHTLY, OFTEN).rows == before
    made.now += timedelta(days=3)
    assert made.start(NIGHTLY, OFTEN).rows == before  # they are due: the one that passed is not lost
    assert sorted(made.later(timedelta(0))) == ["reports.due", "ticks"]
    assert made.start(NIGHTLY, OFTEN).later(timedelta(0)) == []


def test_a_schedule_that_the_file_has_no_more_or_that_is_another_one_ends() -> None:
    made = Scheduled().start(NIGHTLY, OFTEN).start(RecurringMessage("often", "30m", "ticks"))
    assert made.rows == [("ticks", NOW + timedelta(minutes=30))]
    assert made.start().rows == []


def test_what_others_scheduled_stays() -> None:
    made = Scheduled()
    own = Timeout(uuid4(), "t", NOW, owner="shop/agent")
    made.timeouts.insert(own)
    made.start(OFTEN, app="other").start(NIGHTLY).start()
    assert [topic for topic, _ in made.rows] == ["t", "ticks"]


def test_of_two_processes_that_start_at_once_one_inserts(monkeypatch: pytest.MonkeyPatch) -> None:
    made, find = Scheduled(), MemoryStore().timeouts.find
    monkeypatch.setattr(made.timeouts, "find", find)  # as it was before the other one
    made.start(NIGHTLY)
    with pytest.raises(PersistenceError, match="already exists"):
        made.start(NIGHTLY)
    monkeypatch.undo()
    assert len(made.start(NIGHTLY).rows) == 1


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "app.yaml").write_text(FILE)
    return tmp_path / "app.yaml"


@pytest.mark.parametrize("more", [(), ("--crash",)], ids=["whole", "crash"])
def test_an_agent_gets_each_time_once_whatever_dies(file: Path, more: tuple[str, ...]) -> None:
    result = CliRunner().invoke(main, ["test", str(file), *more])
    assert (result.exit_code, "1 of 1 tests passed" in result.stdout) == (0, True), result.stdout


def test_the_file_says_what_is_sent_and_where(file: Path) -> None:
    output = CliRunner().invoke(main, ["check", str(file)]).stdout
    assert "sends to reports.due at each time of `0 2 * * * Europe/Vienna` (nightly)" in output


@pytest.mark.parametrize(
    ("written", "instead", "text"),
    [
        ("0 2 * * * Europe/Vienna", "0 2 * *", "schedules.nightly.every: '0 2 * *' recurs at no time; write a dur"),
        (
            "0 2 * * * Europe/Vienna",
            "61 2 * * *",
            "schedules.nightly.every: 61 is not a valid minute (0 to 59); write a dur",
        ),
        ("nightly:", '"a b":', "schedules.a b: is not a name"),
        ("topic: reports.due", "topic: a b", "schedules.nightly.topic: is not a topic name"),
        ("app: shop\n", "app: shop\ntimeouts: false\n", "schedules: are sent as timeouts; leave out timeouts: false"),
    ],
)
def test_a_schedule_with_a_mistake_is_refused(tmp_path: Path, written: str, instead: str, text: str) -> None:
    path = tmp_path / "app.yaml"
    path.write_text(FILE.replace(written, instead, 1))
    problems = [str(problem) for problem in load(path, {}).problems]
    assert [text in problem for problem in problems] == [True], problems


def test_an_app_writes_its_schedules_into_its_file(file: Path) -> None:
    import sluicegate

    app: Any = sluicegate.App.from_yaml(file)
    assert sluicegate.App.from_yaml(app.to_yaml()) == app
    assert "0 2 * * * Europe/Vienna" in app.to_yaml()
