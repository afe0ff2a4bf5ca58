"""Random records that commands and a shadow read again: each gives an answer, never a traceback."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from typer.testing import CliRunner

from sluicegate.connectors import open_store
from sluicegate.streams.agent import Reducer
from sluicegate.streams.cli import letters, main
from sluicegate.streams.cli.opening.files import loaded
from tests.fuzz import later
from tests.fuzz.seeds import TIMES, drawn, replayable
from tests.unit.cli.log_topics import LogTopics
from tests.unit.engine.driver import Driver, ManualClock
from tests.unit.engine.scene import a_log, an_agent
from tests.unit.shadow.scene import Scene, all_identical

RECORDS = 60 * TIMES
FILE = """\
app: app
kafka: {bootstrap.servers: "127.0.0.1:1"}
store: sqlite:///state.db
start_timeout: 300ms
http: false
dead_letters: app.dead
agents:
  a: {from: in, aggregate: {count: 3, compute: {v: {last: v}, all: collect}, on_missing: ignore}, to: out}
"""


def keys(random: Random, number: int) -> bytes:
    """Each key has three records at most, so that some groups stay open."""
    return random.choice([b"k%d", b"\xff%d", b"\x1b]0;%d", b'"%d', "\u202e%d".encode()]) % (number // 4)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Open groups and dead letters of random records."""
    path, log, random = tmp_path / "app.yaml", a_log("in", "out", "app.dead"), drawn("read again")
    path.write_text(FILE)
    monkeypatch.setattr(LogTopics, "log", log)
    monkeypatch.setattr(letters, "BrokerTopics", LogTopics)
    app = loaded(str(path))
    store = open_store(app.store, app.folder)
    store.migrate()
    for number in range(RECORDS):
        log.append("in", 0, keys(random, number), later.record(random, number))
    Driver(app.agents[0], store, log, ManualClock()).give(0).turns(RECORDS)
    store.close()
    return str(path)


def answered(*words: str) -> str:
    """What a command prints. A traceback is an error of the test."""
    done = CliRunner().invoke(main, list(words))
    assert done.exception is None or isinstance(done.exception, SystemExit), (words, done.exception)
    assert "Traceback" not in done.output
    return done.output


def test_commands_show_what_random_records_left(file: str, fuzzed: Callable[[int], None]) -> None:
    with replayable():
        for form in ([], ["--json"]):
            listed = answered("groups", "ls", file, "a", *form)
            letters_listed = answered("dead", "ls", file, "a", *form)
            for offset in range(RECORDS):
                answered("dead", "show", file, "a", f"in/0/{offset}", "--payload", *form)
                answered("groups", "show", file, "a", f"k{offset // 4}", *form)
        fires = [(dict(result.h or [])["sluicegate-fire"] or b"").decode() for result in LogTopics.log.topics["out"][0]]
        assert all("in/0" in answered("explain", file, fire) for fire in fires)
        assert "k" in listed
        assert "undecodable" in letters_listed
    fuzzed(RECORDS)


def test_a_shadow_of_random_records_is_identical(fuzzed: Callable[[int], None]) -> None:
    agent = an_agent(count=3, compute=(Reducer("all", "collect"),), on_missing="ignore")
    scene, random = Scene(agent), drawn("shadow")
    for number in range(RECORDS):
        scene.feed(f"k{number // 4}", later.record(random, number) or b"")
        scene.turn()
    scene.settle()
    with replayable():
        assert all_identical(scene.shadow())
    fuzzed(RECORDS)
