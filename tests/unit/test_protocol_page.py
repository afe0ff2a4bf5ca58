"""docs/protocol.md and the code name the same steps, failpoints, halts, classes and functions."""

import re
from pathlib import Path

import pytest

from sluicegate.streams.ownership.halted import GAPS
from tests.chaos import matrix
from tests.unit.test_drawings import defined

PROJECT = Path(__file__).resolve().parents[2]
PAGE = (PROJECT / "docs/protocol.md").read_text()
CODE = [path for room in ("streams", "connectors") for path in sorted((PROJECT / room).rglob("*.py"))]
REFERENCE = re.compile(r"docs/protocol\.md,\s+([A-Z][a-z ]*[a-z])")
FILE_KEYS = {"accept_level", "at_most"}
SPAN = re.compile(r"`([^`\n]+)`")


def section(title: str, page: str = PAGE) -> str:
    """The text below a heading of the second or third level, up to the next heading of its level."""
    level, rest = re.split(rf"^(###?) {title}\n", page, flags=re.MULTILINE)[1:]
    return re.split(rf"^#{{2,{len(level)}}} ", rest, flags=re.MULTILINE)[0]


def first_column(text: str) -> set[str]:
    """The names in code font in the first column of the tables."""
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return {name for cell in cells for name in SPAN.findall(cell)}


def referred() -> set[str]:
    return {title for path in CODE for title in REFERENCE.findall(path.read_text())}


def unknown(page: str) -> list[str]:
    """Classes, methods, functions and files that the page names and the code does not have."""
    known = defined()
    everything = set(known).union(*known.values())
    names = []
    for name in SPAN.findall(page):
        if re.fullmatch(r"[A-Z]\w+\.\w+", name):
            owner, _, member = name.partition(".")
            there = member in known.get(owner, set())
        elif re.fullmatch(r"[A-Z]\w+", name) or re.fullmatch(r"[a-z]+_[a-z_]+", name):
            there = name in everything or name in FILE_KEYS
        elif re.fullmatch(r"(streams|connectors|schemas)/[\w/.]+", name):
            there = (PROJECT / name).exists()
        else:
            continue  # a value, a setting of the Kafka client, a key of the file
        if not there:
            names.append(name)
    return names


def test_the_page_names_each_failpoint_of_the_code_and_no_other() -> None:
    assert first_column(section("Failpoints")) == matrix.in_the_code()


def test_the_page_names_each_halt_of_a_claim_and_no_other() -> None:
    assert first_column(section("Claim")) == {kind.code for kind in GAPS}


def test_each_step_of_the_page_is_referred_to_by_the_code_that_does_it() -> None:
    steps = set(re.findall(r"^### (.+)$", section("The steps of a partition"), re.MULTILINE))
    assert steps - referred() == set()


def test_each_reference_of_the_code_is_a_heading_of_the_page() -> None:
    headings = set(re.findall(r"^###? (.+)$", PAGE, re.MULTILINE))
    assert referred() - headings == set()


def test_each_name_of_the_page_is_in_the_code() -> None:
    assert unknown(PAGE) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("`Intake.accept`", "`Intake.grab`"),
        ("`StoreClock`", "`StoreWatch`"),
        ("`check_claim`", "`check_row`"),
        ("`streams/failpoints.py`", "`streams/failures.py`"),
    ],
)
def test_a_name_that_the_code_does_not_have_is_found(old: str, new: str) -> None:
    assert old in PAGE
    assert unknown(PAGE.replace(old, new)) == [new.strip("`")]


def test_a_failpoint_that_is_missing_from_the_page_is_found() -> None:
    page = PAGE.replace("`lane-numbered`, ", "")
    assert matrix.in_the_code() - first_column(section("Failpoints", page)) == {"lane-numbered"}
