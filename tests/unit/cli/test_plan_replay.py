"""`sluicegate plan` with its replay, and `replay --shadow`: the figures of a run whose records are known."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import sluicegate.connectors.kafka.clusters.routed as kafka
from sluicegate.streams.cli import main
from sluicegate.streams.cli.opening.files import loaded
from tests.unit.cli.test_plan import FILE, OTHER, migrated
from tests.unit.engine.driver import Driver, Log, ManualClock
from tests.unit.engine.rebuilding import LogHistory
from tests.unit.engine.scene import a_log, feed

RECORDS = [(key, amount) for amount in range(40) for key in ("x", "y")]
"""With `count: 9` each key has 4 results, and 4 records in an open group."""
Command = Callable[..., Result]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    made = a_log("in", "out", "out2", "d", "app.dead")

    class Stored(LogHistory):
        def __init__(self, settings: object, group: str) -> None:
            super().__init__(made, group)

        def close(self) -> None: ...

    monkeypatch.setattr(kafka, "KafkaHistory", Stored)
    return made


@pytest.fixture
def ran(log: Log, tmp_path: Path) -> str:
    """The file of an app that took all records."""
    file = tmp_path / "old.yaml"
    file.write_text(FILE)
    feed(log, *RECORDS)
    feed(log, ("x", None))
    Driver(loaded(str(file)).agents[0], migrated(str(file)), log, ManualClock()).give(0).turns(8).later(1).turns(4)
    return str(file)


@pytest.fixture
def plan(ran: str, tmp_path: Path) -> Command:
    def invoke(text: str, *more: str) -> Result:
        (tmp_path / "new.yaml").write_text(text)
        return CliRunner().invoke(main, ["plan", str(tmp_path / "new.yaml"), "--against", ran, *more])

    return invoke


def replay_of(result: Result, name: str = "a") -> Any:
    [agent] = [agent for agent in json.loads(result.stdout)["agents"] if agent["name"] == name]
    return agent["replay"]


def counts(replay: Any) -> list[int]:
    return [replay[verdict] for verdict in ("identical", "changed", "missing", "extra", "uncertain")]


def test_another_count_has_the_figures_of_the_records(plan: Command) -> None:
    result = plan(FILE.replace("count: 9", "count: 4"), "--json")
    assert result.exit_code == 0
    replay = replay_of(result)
    begins = {9: {0, 9, 18, 27}, 4: {0, 4, 8, 12, 16, 20, 24, 28, 32, 36}}
    both = begins[9] & begins[4]
    assert counts(replay) == [0, 2 * len(both), 2 * len(begins[4] - both), 2 * len(begins[9] - both), 0]
    assert (replay["records"], replay["dead"]["identical"], replay["comparable"]) == (81, 1, True)


def test_an_added_field_changes_each_result_and_no_group(plan: Command) -> None:
    new = FILE.replace("n: count,", "n: count, most: {max: amount},")
    replay = replay_of(plan(new, "--json"))
    assert counts(replay) == [0, 8, 0, 0, 0]
    assert {tuple(example["differs"]) for example in replay["examples"] if example["id"]} == {("most",)}


def test_the_lines_for_people(plan: Command) -> None:
    result = plan(FILE.replace("count: 9", "count: 4"))
    text = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "replay 81 records, 8 published results: identical 0, changed 2, missing 18, extra 6, uncertain 0" in text, (
        result.output
    )
    assert "dead letters identical 1, changed 0, missing 0, extra 0, uncertain 0" in text
    assert (
        "example changed: x in in/0: live 0..16, 9 records, count; new 0..6, 4 records, count; "
        "differs: last, count" in text
    )


@pytest.mark.parametrize(
    ("listed", "code"),
    [(None, 0), ("changed", 4), ("missing,refused", 4), ("extra", 4), ("uncertain", 0), ("dead", 0), ("", 0)],
)
def test_the_caller_says_which_verdicts_end_with_4(plan: Command, listed: str | None, code: int) -> None:
    more = () if listed is None else ("--fail-on", listed)
    assert plan(FILE.replace("count: 9", "count: 4"), *more).exit_code == code


def test_a_dead_letter_more_ends_with_4(plan: Command) -> None:
    result = plan(FILE.replace("{sum: amount}", "{sum: price}"), "--open", "drop")
    assert result.exit_code == 4
    assert "dead letters identical 1, changed 0, missing 80" in " ".join(result.stdout.split())


def test_with_another_key_only_totals_are_compared(plan: Command) -> None:
    replay = replay_of(plan(FILE.replace("    aggregate:", "    key: amount\n    aggregate:"), "--json"))
    assert (replay["comparable"], replay["published"], replay["given"]) == (False, 8, 0)
    shown = plan(FILE.replace("    aggregate:", "    key: amount\n    aggregate:"), "--open", "drop").stdout
    assert "of other keys, so none has a counterpart" in shown


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("from: in\n", "from: [in, out2]\n", "the topics changed"),
        ("app: app\n", "app: other\n", "app or store changed"),
        ("    to: {topic: out}", "    handler: builtins:len", "its results go to the handler builtins:len"),
    ],
)
def test_what_cannot_be_judged_is_said_and_counts_as_uncertain(plan: Command, old: str, new: str, why: str) -> None:
    changed = FILE.replace(old, new).replace("count: 9", "count: 4")
    shown = plan(changed)
    assert any(line.startswith("  not judged") and why in line for line in shown.stdout.splitlines()), shown.output
    assert why in replay_of(plan(changed, "--json"))["not_judged"]
    assert plan(changed, "--fail-on", "changed,missing,extra").exit_code == 0
    assert plan(changed, "--fail-on", "uncertain").exit_code == 4


def test_only_changed_rules_are_replayed(plan: Command, ran: str) -> None:
    Path(ran).write_text(FILE + OTHER)
    result = plan(FILE.replace("count: 9", "count: 8") + OTHER, "--json")
    assert replay_of(result, "b") is None
    assert replay_of(result)["records"] == 81


def test_a_range_and_a_key(plan: Command) -> None:
    new = FILE.replace("count: 9", "count: 4")
    assert replay_of(plan(new, "--from", "0", "--to", "40", "--json"))["records"] == 40
    replay = replay_of(plan(new, "--key", "x", "--json"))
    assert counts(replay) == [0, 1, 9, 3, 0]


@pytest.mark.parametrize(
    ("change", "more", "code", "text"),
    [
        ("", ("--no-replay", "--last", "1h"), 2, "leave out --no-replay"),
        ("", ("--from", "yesterday"), 2, "--from yesterday: write an offset"),
        ('kafka: {bootstrap.servers: "embedded"}', (), 2, "add --no-replay"),
        ("store: memory://", (), 2, "add --no-replay"),
    ],
)
def test_what_cannot_be_replayed_at_all(
    plan: Command, ran: str, change: str, more: tuple[str, ...], code: int, text: str
) -> None:
    key = change.partition(":")[0]
    if change:
        lines = [change if line.startswith(f"{key}:") else line for line in FILE.splitlines()]
        Path(ran).write_text("\n".join(lines) + "\n")
    result = plan(Path(ran).read_text().replace("count: 9", "count: 4"), *more)
    assert (result.exit_code, text in result.stderr) == (code, True), result.output


def test_a_shadow_of_the_file_that_ran_is_identical(ran: str) -> None:
    result = CliRunner().invoke(main, ["replay", ran, "a", "--shadow", "--from", "earliest", "--json"])
    document = json.loads(result.stdout)
    assert (result.exit_code, counts(document), document["open"]["identical"]) == (0, [8, 0, 0, 0, 0], 2)


@pytest.mark.parametrize(("listed", "code"), [("changed,missing,extra,dead", 4), ("changed,extra", 0)])
def test_a_result_that_is_gone_ends_a_shadow_with_4(ran: str, log: Log, listed: str, code: int) -> None:
    del log.topics["out"][0][3]
    result = CliRunner().invoke(main, ["replay", ran, "a", "--shadow", "--from", "earliest", "--fail-on", listed])
    assert result.exit_code == code, result.output
    assert "missing: " in result.stdout
