"""What a person reads: help texts, the version, questions, counts, and the ends of commands that were asked for what is
not there."""

import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from sluicegate.connectors import open_store
from sluicegate.streams.cli import main
from sluicegate.streams.cli.opening.files import loaded
from sluicegate.streams.cli.terminal.output import age, due
from sluicegate.streams.wording import counted
from tests.unit.cli.test_groups import FILE as GROUPS
from tests.unit.cli.test_groups import driver, filled
from tests.unit.engine.scene import a_log, feed

SLUICEGATE = Path(sys.executable).with_name("sluicegate")
PLAIN = """\
app: app
kafka: {bootstrap.servers: "127.0.0.1:1"}
store: sqlite:///state.db
http: false
agents:
  mails: {from: in, handler: "builtins:len"}
  sums:
    from: other
    repartition: customer
    key: {field: customer}
    aggregate: {count: 2}
    to: {topic: out}
"""


def sluicegate(*args: str, stdin: Any = subprocess.DEVNULL) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "COLUMNS": "80"}
    return subprocess.run([SLUICEGATE, *args], capture_output=True, text=True, timeout=60, stdin=stdin, env=environment)


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "app.yaml").write_text(GROUPS)
    return str(tmp_path / "app.yaml")


def commands() -> Iterator[tuple[str, ...]]:
    for name, command in get_command(main).commands.items():  # type: ignore[attr-defined]
        yield (name,)
        yield from ((name, part) for part in getattr(command, "commands", ()))


def test_the_option_version_says_what_the_command_says() -> None:
    option, command = sluicegate("--version"), sluicegate("version")
    assert (option.returncode, option.stdout, option.stderr) == (0, command.stdout, "")
    assert re.fullmatch(r"sluicegate \d+\.\d+\.\d+\S*\nkernel: (native|python).*\n", option.stdout)


def test_no_help_text_is_cut_off_at_eighty_columns() -> None:
    groups = [(), ("groups",), ("timeouts",), ("outbox",), ("parked",), ("dead",), ("keys",)]
    listings = {words: _help(words) for words in groups}
    assert _help(("plan",)) == sluicegate("plan", "--help").stdout
    for words in commands():
        text = listings.get(words) or _help(words)
        first = " ".join(_command(words).help.split()).partition(". ")[0]
        assert first in " ".join(listings[words[:-1]].split()), words
        assert not re.search(r"\.\.\.$", text.partition("Commands:")[2], re.M), text
        assert all(len(line) <= 80 for line in text.splitlines()), words


def _help(words: tuple[str, ...]) -> str:
    """In this process: a process for each command takes half a minute. On a terminal of 80 columns click uses 78."""
    return CliRunner().invoke(main, [*words, "--help"], terminal_width=78).stdout


def _command(words: tuple[str, ...]) -> Any:
    command: Any = get_command(main)
    for word in words:
        command = command.commands[word]
    return command


def test_an_argument_that_may_be_repeated_is_named_once() -> None:
    assert "{FILE} {AGENT} [ID]..." in " ".join(sluicegate("dead", "retry", "--help").stdout.split())


def test_without_a_terminal_nothing_is_dropped_and_the_option_that_does_it_is_named(file: str) -> None:
    filled(file)
    refused = sluicegate("groups", "drop", file, "a", "x")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert (
        "in/0: forget 2 records of x? Nothing was changed: there is no terminal to ask at; add --yes" in refused.stderr
    )
    assert "forget 1 record of y?" in sluicegate("groups", "drop", file, "a", "y").stderr
    assert sluicegate("groups", "drop", file, "a", "x", "--yes").returncode == 0
    rows = sluicegate("outbox", "drop", file, "one")
    assert (rows.returncode, "delete 1 row unsent?" in rows.stderr, "--yes" in rows.stderr) == (2, True, True)


def test_at_a_terminal_a_person_is_asked(file: str) -> None:
    filled(file)
    for answer, code in ((b"n\n", 2), (b"\x04", 2), (b"y\n", 0)):
        ours, theirs = pty.openpty()
        os.write(ours, answer)
        done = sluicegate("groups", "drop", file, "a", "x", stdin=theirs)
        os.close(ours)
        os.close(theirs)
        assert (done.returncode, "in/0: forget 2 records of x?" in done.stderr) == (code, True), done.stderr
    assert "no open group x" in sluicegate("groups", "show", file, "a", "x").stderr


@pytest.mark.parametrize("what", [["ls"], ["show"], ["why"], ["fire"], ["drop"]])
def test_an_agent_that_never_has_groups_is_a_usage_error(tmp_path: Path, what: list[str]) -> None:
    (tmp_path / "app.yaml").write_text(PLAIN)
    app = loaded(str(tmp_path / "app.yaml"))
    open_store(app.store, app.folder).migrate()
    key = [] if what == ["ls"] else ["k"]
    mails = sluicegate("groups", *what, str(tmp_path / "app.yaml"), "mails", *key)
    assert (mails.returncode, mails.stdout) == (2, "")
    assert "agent mails has no groups: it hands each record to its handler" in mails.stderr
    if what == ["ls"]:
        copies = sluicegate("groups", *what, str(tmp_path / "app.yaml"), "sums.repartition")
        assert (copies.returncode, "copies each record under another key" in copies.stderr) == (2, True)
        assert sluicegate("groups", *what, str(tmp_path / "app.yaml"), "sums").returncode == 0


def test_check_says_nothing_of_the_dispatcher_to_a_file_that_uses_none_of_it(file: str) -> None:
    without = sluicegate("check", file)
    assert (without.returncode, "dispatcher" in without.stdout, "outbox" in without.stdout) == (0, False, False), (
        without.stdout
    )
    for more in ("outbox: {attempts: 3}\n", "timeouts: {batch: 7}\n"):
        Path(file).write_text(GROUPS + more)
        assert "dispatcher:\n  sends the rows of the store's outbox" in sluicegate("check", file).stdout
    Path(file).write_text(GROUPS.replace("    from: in\n", "    from: in\n    scope: shared\n"))
    assert "dispatcher:\n" in sluicegate("check", file).stdout


def test_a_timeout_without_a_value_is_refused_or_knowingly_null(file: str) -> None:
    app = loaded(file)
    store = open_store(app.store, app.folder, app=app.name)
    store.migrate()
    refused = sluicegate("timeouts", "add", file, "orders", "15m")
    assert (refused.returncode, refused.stdout, store.timeouts.count()) == (2, "", 0)
    assert "--value TEXT" in refused.stderr
    assert "--null" in refused.stderr
    assert sluicegate("timeouts", "add", file, "nulls", "15m", "--null").returncode == 0
    assert sluicegate("timeouts", "add", file, "empty", "15m", "--value", "").returncode == 0
    assert {document.destination: document.value for document in store.timeouts.find()} == {"nulls": None, "empty": b""}


def test_the_audit_names_the_agent_of_a_shared_group(file: str) -> None:
    Path(file).write_text(GROUPS.replace("    from: in\n", "    from: in\n    scope: shared\n"))
    log = a_log()
    feed(log, ("k l", 5), ("other", 5))
    driver(file, log).turns()
    assert sluicegate("groups", "fire", file, "a", "k l", "--why", "now").returncode == 0
    assert sluicegate("groups", "drop", file, "a", "other", "--yes", "--why", "a mistake").returncode == 0
    for more in ([], ["a"]):
        fired, dropped = [line for line in sluicegate("audit", file, *more).stdout.splitlines() if "@" in line]
        assert re.search(r"Z?\s+a\s+\S+@\S+\s+groups fire\s+k l\s+now", fired), fired
        assert re.search(r"\s+a\s+\S+@\S+\s+groups drop\s+other\s+a mistake", dropped), dropped


def test_topics_says_of_a_shared_agent_what_is_true_of_it(tmp_path: Path) -> None:
    text = GROUPS.replace("    from: in\n", "    from: [in, other]\n    scope: shared\n").replace(
        '"127.0.0.1:1"', "embedded"
    )
    (tmp_path / "app.yaml").write_text(text)
    shared = sluicegate("topics", str(tmp_path / "app.yaml"))
    assert (shared.returncode, "never span" in shared.stdout) == (0, False), shared.stdout
    assert "a: its groups span all partitions and topics (scope: shared), whatever their number" in shared.stdout
    (tmp_path / "app.yaml").write_text(text.replace("    scope: shared\n", ""))
    apart = sluicegate("topics", str(tmp_path / "app.yaml")).stdout
    assert ("groups never span topics" in apart, "scope: shared" in apart) == (True, False)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "0 s"), (42.4, "42 s"), (600.0, "10 min"), (9_000.0, "2.5 h"), (400_000.0, "4.6 d")]
)
def test_an_age_has_its_unit(seconds: float, text: str) -> None:
    assert age(seconds) == text


@pytest.mark.parametrize(("seconds", "text"), [(42.4, "42 s"), (-0.2, "0 s"), (-2.0, "2 s overdue")])
def test_a_deadline_that_has_passed_is_overdue(seconds: float, text: str) -> None:
    assert due(seconds) == text


def test_one_is_singular() -> None:
    assert [counted(n, "record") for n in (0, 1, 2)] == ["0 records", "1 record", "2 records"]
