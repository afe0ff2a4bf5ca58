"""The pages of docs/reference are those that the code makes, and nothing in them is without a description."""

import re
from pathlib import Path

import pytest
import typer

from sluicegate.streams import errors
from sluicegate.streams.cli import main
from sluicegate.streams.cli.terminal import outcome
from sluicegate.streams.config.reference import references
from sluicegate.streams.observe.log_events import EVENTS
from sluicegate.streams.observe.metrics import METRICS
from tests import docs_reference

PROJECT = Path(__file__).parents[3]
COMMAND = "run: python -m tests.docs_reference"


def empty_meanings(page: str) -> list[str]:
    """The rows of tables whose second or, of errors, third column is empty."""
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in page.splitlines() if line.startswith("| `")]
    third = any(f"| {column} |" in page for column in ("kind of", "kind", "level"))
    return [row[0].strip() for row in rows if not row[2 if third else 1].strip()]


@pytest.mark.parametrize("name", docs_reference.MAKERS)
def test_a_page_is_current_and_describes_all_that_it_names(name):
    made = docs_reference.MAKERS[name]()
    assert (docs_reference.PAGES / f"{name}.md").read_text(encoding="utf-8") == made, COMMAND
    assert empty_meanings(made) == []


@pytest.mark.parametrize("name", docs_reference.DOCUMENTS)
def test_the_documents_of_dead_letters_are_current(name):
    made = docs_reference.written(docs_reference.DOCUMENTS[name]())
    assert (PROJECT / "schemas" / "documents" / name).read_text(encoding="utf-8") == made, COMMAND


def test_the_table_of_rooms_is_the_one_of_the_house_test():
    text = docs_reference.DESIGN.read_text(encoding="utf-8")
    assert docs_reference.with_rooms(text) == text, COMMAND
    assert all(f"| `{room}` |" in text for room in docs_reference.ARROWS if room not in ("(files)", "streams"))
    assert docs_reference.with_rooms(text.replace("| `outbox` |", "| `inbox` |")) == text


def test_there_are_no_other_pages():
    assert {page.stem for page in docs_reference.PAGES.iterdir()} == {*docs_reference.MAKERS}


@pytest.mark.parametrize("name", docs_reference.MAKERS)
def test_a_row_without_a_description_is_found(name):
    """The twin: the meaning of the last row is taken out."""
    page = docs_reference.MAKERS[name]()
    last = [line for line in page.splitlines() if line.startswith("| `")][-1]
    cells = re.split(r"(?<!\\)\|", last)
    cells[3 if name in ("exit-codes", "metrics", "events") else 2] = "  "
    before, _, after = page.rpartition(last)
    assert empty_meanings(before + "|".join(cells) + after) == [cells[1].strip()]


def test_the_pages_name_everything():
    text = {name: maker() for name, maker in docs_reference.MAKERS.items()}
    commands = dict(docs_reference.each_command(typer.main.get_command(main), "sluicegate"))
    assert len(commands) > 30
    assert all(command.help for command in commands.values())
    assert all(f"## `{command}`\n" in text["commands"] for command in commands)
    assert all(f"`{docs_reference.PREFIX}{metric.name}" in text["metrics"] for metric in METRICS)
    assert {*EVENTS} == {*docs_reference.logged()}
    assert text["keys"].count("\n| `") == len(references())
    assert errors.StoreRewound in docs_reference.error_classes()
    codes = {value for name, value in vars(outcome).items() if name.isupper() and type(value) is int}
    assert {*outcome.EXIT_CODES} == codes


@pytest.mark.parametrize("error", docs_reference.error_classes())
def test_each_error_has_its_own_description_and_its_place_in_the_tree(error):
    assert error.__doc__
    assert error.__name__ in (errors.__doc__ or "")
