"""Random records that commands and a shadow read again: each gives an answer, never a traceback."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from typer.testing import CliRunner

from sluicegate.connectors import open_store
from sluicegate.streams.agent import Reducer
from sluicegate.streams.cli import letters, main
from sluicegate.streams.cli.opening.files import loaded
from sluicegate.streams.testing.log import Log
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


LETTER = {
    "sluicegate-id": b"forged",
    "sluicegate-dead-app": b"app",
    "sluicegate-dead-agent": b"a",
    "sluicegate-dead-stage": b"decode",
    "sluicegate-dead-reason": b"undecodable",
    "sluicegate-dead-error": b"a",
    "sluicegate-dead-attempts": b"1",
    "sluicegate-dead-topic": b"in",
    "sluicegate-dead-partition": b"0",
    "sluicegate-dead-offset": b"0",
    "sluicegate-dead-timestamp": b"0",
}
MORE = (
    "item",
    "size",
    "digest",
    "cut",
    "rekeyed-by",
    "read",
    "retries",
    "members",
    "version",
    "clause",
    "line",
    "code",
)
OTHERS = (
    *(f"sluicegate-dead-{name}" for name in MORE),
    "sluicegate-first",
    "sluicegate-last",
    "sluicegate-removed",
    "sluicegate-fire",
    "sluicegate-count",
)
FORGED = (
    b"",
    b"-1",
    b"9" * 10,
    b"9" * 19,
    b"9" * 5_000,
    "\u0663".encode(),
    b"\xff",
    b"a/b",
    b"in/0/" + b"9" * 5_000,
    b"in/9999999999/0",
    b"[" * 5_000,
    b"1e999",
)


def forged(log: Log) -> None:
    """Letters of a program that may write to the dead-letter topic: each has one header that no agent writes."""
    for number, (name, value) in enumerate((name, value) for name in (*LETTER, *OTHERS) for value in FORGED):
        made = {**LETTER, "sluicegate-id": b"forged-%d" % number, name: value}
        if number % 2:
            made.setdefault("sluicegate-first", b"in/0/0")
        log.append("app.dead", 0, b"k", b"{}", list(made.items()))


def test_a_letter_that_no_agent_wrote_keeps_no_command_from_the_others(file: str) -> None:
    log = LogTopics.log
    genuine = len(json.loads(answered("dead", "ls", file, "--json"))["dead"])
    forged(log)
    listed = json.loads(answered("dead", "ls", file, "--json"))["dead"]
    assert len(listed) > genuine
    assert len({letter["id"] for letter in listed}) >= genuine
    assert json.loads(answered("dead", "ls", file, "--by", "cause", "--json").splitlines()[0])
    assert answered("dead", "ls", file, "a", "--where", "attempts == 1", "--json").count("in/0/") > 1
    assert letters.Counts(loaded(file), 10_000).read()["a", "in", 0] > genuine
    for letter in listed[-60:]:
        answered("dead", "show", file, "a", letter["id"])
    for more in ((), ("--unproven",)):
        answered("dead", "retry", file, "a", "--all", "--yes", *more)
    for words in (("status", file), ("audit", file), ("dead", "drop", file, "a", "--all", "--yes", "--why", "forged")):
        answered(*words)
