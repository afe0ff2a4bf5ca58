"""docs/change-events.md says what is there: its files pass their own tests."""

import re
from pathlib import Path

import pytest

from sluicegate.streams.reducers import ENTRIES
from sluicegate.streams.testing.files import loaded
from sluicegate.streams.testing.play import play_with_crashes

DOCUMENT = (Path(__file__).resolve().parents[3] / "docs" / "change-events.md").read_text(encoding="utf-8")
FILES = [text for text in re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.DOTALL) if "\ntests:\n" in text]
CASES = [(0, number) for number in range(5)] + [(1, 0), (2, 0)]


@pytest.mark.parametrize(("file", "number"), CASES)
def test_its_files_pass_their_own_tests_with_a_death_at_every_place(tmp_path: Path, file: int, number: int) -> None:
    (tmp_path / "shop.yaml").write_text(FILES[file], encoding="utf-8")
    outcome = loaded(tmp_path / "shop.yaml")
    assert outcome.app is not None, outcome.problems
    verdict = play_with_crashes(outcome.app, outcome.cases[number], lambda done, total: None)
    assert (verdict.failure, verdict.place) == (None, None)


@pytest.mark.parametrize(("policy", "wrong"), [("convert", 0), ("refuse", 0), ("finish", 1), ("flush", 1), ("drop", 1)])
def test_a_table_that_changes_is_converted(tmp_path: Path, policy: str, wrong: int) -> None:
    text = FILES[0].replace("    aggregate:", f"    on_change: {policy}\n    aggregate:", 1)
    (tmp_path / "shop.yaml").write_text(text, encoding="utf-8")
    problems = loaded(tmp_path / "shop.yaml").problems
    assert [problem.key.rpartition(".")[2] for problem in problems] == ["on_change"] * wrong


def test_no_case_is_left_out() -> None:
    cases = [re.findall(r"^  [a-z][^:]*:$", text.partition("tests:")[2], re.MULTILINE) for text in FILES]
    assert [*map(len, cases)] == [5, 1, 1]


def test_its_table_names_every_reducer() -> None:
    table = DOCUMENT.split("## What is computed")[1].split("\n## ")[0]
    named = {word for line in table.splitlines() if line.startswith("| `") for word in re.findall(r"`(\w+)`", line)}
    assert {entry.name for entry in ENTRIES} <= named
    refused = {word for line in table.splitlines() if "refuses" in line for word in re.findall(r"`(\w+)`", line)}
    assert {entry.name for entry in ENTRIES if entry.of_rows is None} == refused - {"check"}
