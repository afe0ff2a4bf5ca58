"""What a person reads on a terminal of 80 columns, and in a pipe: each id is on one line, whole."""

from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from sluicegate.connectors.kafka import admin
from sluicegate.streams.cli import letters, main
from sluicegate.streams.cli.opening import waiting
from sluicegate.streams.cli.terminal import output
from sluicegate.streams.cli.terminal.output import print_table, print_text
from tests.docs_reference import each_command
from tests.unit.cli.log_topics import LogTopics
from tests.unit.cli.long_names import BILLS, KEYS, MAILS, OPEN, ORDERS, OUT, OWNER, PARKED, ROW, TIMEOUT, made

AGENT = "sums-by-customer"
SHOWN: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "status": ((), (f"{ORDERS}/0", f"{BILLS}/0", f"{MAILS}/0", OWNER)),
    "audit": ((), (TIMEOUT, "ann-of-the-night-shift@laptop-17.example.com")),
    "keys ls": ((), ()),
    "groups ls": ((AGENT,), (OPEN, ORDERS, OWNER)),
    "groups show": ((AGENT, OPEN), (OPEN, ORDERS, OWNER)),
    "groups why": ((AGENT, OPEN), (f"{ORDERS}/0:",)),
    "timeouts ls": ((), (TIMEOUT, OUT, KEYS[0], OWNER)),
    "outbox ls": ((), (ROW, OUT, KEYS[0])),
    "outbox show": ((ROW,), (ROW, OUT, KEYS[0])),
    "parked ls": (("mails",), (f"{MAILS}/0/0", PARKED)),
    "dead ls": ((), (f"{ORDERS}/0/2", AGENT)),
    "dead show": ((f"{ORDERS}/0/2", "--payload"), (f"{ORDERS}/0/2", AGENT)),
    "topics": ((), (ORDERS, BILLS, MAILS, OUT)),
    "check": ((), (ORDERS, BILLS, OUT)),
    "plan": (("--no-replay", "--against", "FILE"), (f"{AGENT},",)),
    "eval": ((AGENT, "--value", '{"amount": 1}'), ()),
    "docs": ((), ("agents.*.aggregate.window.grace",)),
    "explain": (("ID",), (f"{BILLS}/0:", "3", "4", "5")),
}
NO_IDS = {"deploy", "migrate", "accept-gap", "replay", "test", "version"}
"""They list nothing of the store, or need a broker: their tables are judged by `print_table` alone."""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(letters, "BrokerTopics", LogTopics)
    monkeypatch.setattr(admin, "existing", lambda brokers, names, timeout: dict.fromkeys(names, 1))
    monkeypatch.setattr(waiting, "wait_for", lambda _, do, system: do())
    path = made(tmp_path)
    by = ("--by", "ann-of-the-night-shift@laptop-17.example.com")
    assert CliRunner().invoke(main, ["timeouts", "reschedule", path, TIMEOUT, "2h", *by]).exit_code == 0
    return path


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")


def lines(command: str, more: tuple[str, ...], file: str) -> list[str]:
    wanted = tuple(file if word == "FILE" else word for word in more)
    if command == "explain":
        wanted = (next(value.decode() for name, value in LogTopics.log.topics[OUT][0][0].h if name == "sluicegate-id"),)
    path = [] if command == "docs" else [file]
    result = CliRunner().invoke(main, [*command.split(), *path, *wanted])
    assert result.exit_code in (0, 3), result.output
    return result.stdout.splitlines()


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("command", SHOWN)
def test_on_a_terminal_of_eighty_columns_each_id_is_whole(file: str, command: str) -> None:
    more, ids = SHOWN[command]
    shown = lines(command, more, file)
    assert [id for id in ids if not any(id in line.split() for line in shown)] == [], "\n".join(shown)
    assert [line for line in shown if len(line.rstrip()) > 80] == []


@pytest.mark.parametrize("command", SHOWN)
def test_in_a_pipe_each_id_is_whole(file: str, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    more, ids = SHOWN[command]
    shown = lines(command, more, file)
    assert [id for id in ids if not any(id in line.split() for line in shown)] == [], "\n".join(shown)


@pytest.mark.usefixtures("narrow")
def test_a_table_that_does_not_fit_is_a_list_of_fields(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("id!", "note", ">count"), [["x" * 50, "a note of some words", 1], ["y" * 90, None, 2]])
    assert capsys.readouterr().out.split("\n") == [
        f"id     {'x' * 50}",
        "note   a note of some words",
        "count  1",
        "",
        "id",
        "y" * 90,
        "count  2",
        "",
    ]
    print_table(("id!", "note"), [["x" * 50, "a note of some words"]])
    assert f"{'x' * 50}   a note of some words" in capsys.readouterr().out


@pytest.mark.usefixtures("narrow")
def test_a_long_line_is_broken_between_words(capsys: pytest.CaptureFixture[str]) -> None:
    print_text(f"  {ORDERS}/0: {'one-word ' * 8}{OPEN}")
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith(f"  {ORDERS}/0: one-word ")
    assert [line[:4] == "    " and len(line) <= 80 for line in rest] == [True] * len(rest)
    assert rest[-1].endswith(OPEN)


def test_each_command_that_lists_something_is_judged() -> None:
    names = {name.strip() for name, _ in each_command(get_command(main), "")}
    changes = {name for name in names if name.split()[-1] not in ("ls", "show", "why")} & {
        name for name in names if " " in name
    }
    rest = {"init", "run", "demo", "schema", "asyncapi"}
    assert names - changes - rest == {*SHOWN} | NO_IDS
