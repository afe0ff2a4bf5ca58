"""The dead letters of the console: an index without their contents, bounded, that takes only what is new."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from sluicegate.streams.console import changes, letter_index
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.stores import TopicPartition
from tests.unit.cli.log_topics import LogTopics
from tests.unit.console.desk import ConsoleClient, a_console, a_driver
from tests.unit.engine.driver import Driver, Log

DEAD = "app.dead", 0


class DeadScene:
    """A worker, its log, and a console. `reads` has the ranges that the console read from the dead-letter topic."""

    def __init__(self, driver: Driver, log: Log, client: ConsoleClient, now: list[float]) -> None:
        self._driver, self.log, self.client, self._now = driver, log, client, now
        self.reads: list[tuple[int, int]] = []

    def die(self, *values: bytes) -> None:
        for value in values:
            self.log.append("in", 0, b"key of " + value, value)
        self._driver.turns(6).later(5).turns(6)

    def ask(self, query: str = "") -> Any:
        """What is dead, read after this call."""
        self._now[0] += 1.0
        return self.client.ask(f"dead?fresh=yes&{query}")

    def ids(self) -> list[str]:
        return [letter["id"] for letter in self.ask()["dead"]]


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    driver, log = a_driver(tmp_path)
    monkeypatch.setattr(LogTopics, "log", log)
    now, read = [0.0], LogTopics.read

    def noted(self: LogTopics, parts: Mapping[TopicPartition, tuple[int, int]]) -> Iterable[Record]:
        made.reads.extend(span for place, span in parts.items() if place == DEAD)
        return read(self, parts)

    monkeypatch.setattr(LogTopics, "read", noted)
    with a_console(tmp_path, lambda: now[0]) as client:
        made = DeadScene(driver, log, client, now)
        yield made


def test_a_reading_takes_only_the_letters_that_are_new(scene: DeadScene) -> None:
    scene.die(b"one", b"two")
    assert scene.ids() == ["in/0/4", "in/0/3"]
    scene.die(b"three")
    assert scene.ids() == ["in/0/5", "in/0/4", "in/0/3"]
    assert scene.ids() == ["in/0/5", "in/0/4", "in/0/3"]
    assert scene.reads == [(0, 2), (2, 3)]


def test_the_index_keeps_the_newest_letters_and_counts_the_older_records(
    scene: DeadScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letter_index, "LEAST", 3)
    monkeypatch.setattr(letter_index, "MOST", 3)
    scene.die(b"one", b"two")
    assert scene.ask()["older"] == 0
    scene.die(b"three", b"four", b"five")
    answer = scene.ask()
    assert ([letter["id"] for letter in answer["dead"]], answer["older"]) == (["in/0/7", "in/0/6", "in/0/5"], 2)
    assert scene.reads == [(0, 2), (2, 5)]


def test_a_letter_that_retention_removed_is_listed_no_more(scene: DeadScene) -> None:
    scene.die(b"one", b"two")
    assert len(scene.ids()) == 2
    scene.log.low[DEAD] = 1
    assert scene.ids() == ["in/0/4"]


def test_a_letter_with_a_copy_is_listed_while_the_topic_has_one(scene: DeadScene) -> None:
    """The process that sent it died before it knew. Retention removes the first one before the copy."""
    scene.die(b"one", b"two")
    first = scene.log.topics["app.dead"][0][0]
    scene.log.append("app.dead", 0, first.k, first.v, first.h)
    assert scene.ids() == ["in/0/4", "in/0/3"]
    scene.log.low[DEAD] = 2
    assert scene.ids() == ["in/0/3"]
    assert scene.client.ask("payload?agent=a&id=in/0/3")["value"] == "one"


def test_a_topic_that_was_created_anew_is_read_from_its_begin(scene: DeadScene) -> None:
    scene.die(b"one", b"two")
    assert len(scene.ids()) == 2
    del scene.log.topics["app.dead"][0][1:]
    assert scene.ids() == ["in/0/3"]
    assert scene.reads == [(0, 2), (0, 1)]


def test_the_index_has_no_contents_and_the_payload_is_read_from_the_topic(scene: DeadScene) -> None:
    value = b"x" * 50_000
    scene.die(value)
    [letter] = scene.ask("search=KEY+OF")["dead"]
    listing = scene.client.port.calls.questions["/console/dead"].__wrapped__.__self__.dead_shown.get()[0].listing  # type: ignore[attr-defined]
    [short] = listing.letters
    assert (short.value, len(short.key), sum(len(content or b"") for _, content in short.headers) < 300) == (
        None,
        letter_index.LONGEST_KEY,
        True,
    )
    answer = scene.client.ask(f"payload?agent=a&id={letter['id']}")
    assert (answer["value"], answer["key"]) == (value.decode(), "key of " + value.decode())
    assert len(answer["headers"]) > 5
    assert answer["error"].startswith(letter["error"])
    scene.log.low[DEAD] = 1
    status, answer, _ = scene.client.send("GET", f"/console/payload?agent=a&id={letter['id']}")
    assert (status, answer) == (400, {"error": f"the dead letter of {letter['id']} is gone from its topic"})


def test_all_of_a_cause_are_retried_once_in_slices(scene: DeadScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "SLICE", 2)
    monkeypatch.setattr(letter_index, "GAP", 0)
    scene.die(b"x1", b'{"other": 1}', b"x2", b"x3", b'{"other": 2}', b"x4", b"x5")
    cause = scene.ask()["causes"][0]
    assert cause["size"] == 5
    scene.log.low[DEAD] = 1
    outcome = scene.client.change("retry", agent="a", cause=cause["cause"], why="mended")[1]
    assert (outcome["sent"], outcome["left_out"]) == (4, [])
    sent = [record.v for record in scene.log.topics["in"][0]][10:]
    assert sorted(sent) == [b"x2", b"x3", b"x4", b"x5"]


def test_a_letter_that_goes_during_a_retry_is_left_out(scene: DeadScene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.die(b"one", b"two")
    assert len(scene.ids()) == 2
    fresh = scene.client.port.calls.questions["/console/dead"].__wrapped__.__self__.letters  # type: ignore[attr-defined]
    whole = fresh.whole
    monkeypatch.setattr(fresh, "whole", lambda *args: [letter for letter in whole(*args) if letter.value == b"two"])
    outcome = scene.client.change("retry", agent="a", ids=["in/0/3", "in/0/4"], why="mended")[1]
    assert outcome["sent"] == 1
    assert outcome["left_out"] == [{"id": "in/0/3", "why": "the letter is gone from its topic"}]


def test_letters_are_judged_again_when_the_app_has_other_keys(scene: DeadScene) -> None:
    """The first retry of an app makes its keys. A letter of the time before has no MAC."""
    scene.die(b"one", b"two")
    assert [letter["proven"] for letter in scene.ask()["dead"]] == [True, True]
    scene.client.change("retry", agent="a", ids=["in/0/3"], why="mended")
    assert [letter["proven"] for letter in scene.ask("retried=yes")["dead"]] == [False, False]
