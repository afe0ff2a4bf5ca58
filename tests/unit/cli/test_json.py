"""`--json`: each command whose output is for people has it, and prints the fields that the reference names."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from sluicegate.streams.cli import letters, main
from sluicegate.streams.cli.terminal.documents import FIELDS
from tests.docs_reference import each_command, parameters
from tests.unit.cli.log_topics import LogTopics
from tests.unit.cli.long_names import BILLS, FILE, KEYS, MAILS, OPEN, ORDERS, ROW, TIMEOUT, made

WITHOUT = {
    "run": "runs until a signal; its log is JSON already",
    "schema": "prints a JSON document already",
    "demo": "is a show",
}
READS = {
    "check": (),
    "migrate": (),
    "status": (),
    "audit": (),
    "keys ls": (),
    "timeouts ls": (),
    "outbox ls": (),
    "outbox show": (ROW,),
    "parked ls": ("mails",),
    "groups ls": ("sums-by-customer",),
    "groups show": ("sums-by-customer", OPEN),
    "groups why": ("sums-by-customer", OPEN),
    "dead ls": (),
    "dead show": (f"{ORDERS}/0/2", "--payload"),
    "eval": ("sums-by-customer", "--value", '{"amount": 1}'),
    "plan": ("--no-replay", "--against", "FILE"),
}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(letters, "BrokerTopics", LogTopics)
    return made(tmp_path)


def named(command: str) -> set[str]:
    """The fields that the reference names."""
    return set(re.findall(r"`([a-z_0-9]+)`", FIELDS[command]))


def names(document: Any, deep: bool = True) -> set[str]:
    """The fields of the document, and of the elements of its lists."""
    lists = [value for value in document.values() if isinstance(value, list)] if deep else []
    return {*document, *(name for part in lists for one in part if isinstance(one, dict) for name in names(one, False))}


def document(command: str, file: str, *more: str) -> Any:
    result = CliRunner().invoke(
        main, [*command.split(), file, *(file if word == "FILE" else word for word in more), "--json"]
    )
    assert (result.stdout.count("\n"), result.exit_code in (0, 3)) == (1, True), result.output
    return json.loads(result.stdout)


def test_each_command_has_it_or_a_reason_against_it() -> None:
    commands = dict(each_command(get_command(main), ""))
    having = {
        name.strip() for name, command in commands.items() if any(word == "--json" for word, _ in parameters(command))
    }
    assert {name.strip() for name in commands} - having == set(WITHOUT)
    assert set(FIELDS) == having


@pytest.mark.parametrize(("command", "more"), READS.items())
def test_what_a_command_prints_is_named_in_the_reference(file: str, command: str, more: tuple[str, ...]) -> None:
    assert names(document(command, file, *more)) <= named(command)


def test_the_fields_of_commands_that_change_something(file: str) -> None:
    assert document("migrate", file, "--dry-run") == {"dry_run": True, "steps": []}
    assert document("timeouts reschedule", file, TIMEOUT, "2030-01-02T00:00:00Z") == {
        "id": TIMEOUT,
        "due_at": "2030-01-02T00:00:00.000+00:00",
    }
    assert document("timeouts cancel", file, TIMEOUT) == {"id": TIMEOUT}
    assert document("outbox retry", file) == {"pending": 1}
    assert document("outbox drop", file, ROW, "--yes") == {"dropped": 1}
    assert document("parked retry", file, "mails") == {"retried": [f"{MAILS}/0/0"]}
    rotated = document("keys rotate", file)
    assert (rotated.keys(), rotated["earlier"], rotated["proves"] > rotated["signs"]) == (
        {"signs", "earlier", "proves"},
        1,
        True,
    )
    for command, more in (
        ("dead drop", ("sums-by-customer", f"{ORDERS}/0/2", "--yes")),
        ("groups fire", ("sums-by-customer", OPEN)),
        ("groups drop", ("sums-by-customer", OPEN, "--yes")),
        ("timeouts add", (BILLS, "1h", "--null", "--key", KEYS[0])),
    ):
        assert names(document(command, file, *more)) <= named(command), command
    assert document("parked ls", file, "mails") == {"parked": []}


def test_migrate_names_its_steps(tmp_path: Path) -> None:
    text = FILE.partition("agents:")[0] + 'agents: {a: {from: x, handler: "builtins:len"}}\n'
    (tmp_path / "app.yaml").write_text(text)
    answer = document("migrate", str(tmp_path / "app.yaml"))
    assert (answer["dry_run"], [type(step) for step in answer["steps"]][:1]) == (False, [str])


def test_init_names_its_files_and_the_next_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answer = json.loads(CliRunner().invoke(main, ["init", "other", "--store", "postgres", "--json"]).stdout)
    assert answer.keys() == named("init")
    assert sorted(answer["files"]) == sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*"))
    assert answer["next"][0] == "sluicegate test other.yaml --crash"
    assert "sluicegate migrate other.yaml" in answer["next"]


def test_version_and_docs_need_no_file() -> None:
    answer = json.loads(CliRunner().invoke(main, ["version", "--json"]).stdout)
    assert answer.keys() == named("version")
    keys = json.loads(CliRunner().invoke(main, ["docs", "store", "--json"]).stdout)
    assert names(keys) == named("docs")


def test_the_code_of_a_rule(file: str) -> None:
    answer = document("eval", file, "sums-by-customer", "--show-code")
    assert (answer.keys(), "def " in answer["code"]) == ({"agent", "code"}, True)
