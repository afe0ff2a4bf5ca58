"""Each pair of features is accepted, or stands in the list of refusals with what `check` says."""

import re
from pathlib import Path

import pytest

from tests.pairs import replays
from tests.pairs.features import KINDS
from tests.pairs.judge import LIST, Refusal, refusals


def listed() -> list[Refusal]:
    """The refusals of the list."""
    texts, why = list[Refusal](), ""
    for line in LIST.read_text(encoding="utf-8").splitlines()[1:]:
        if line.startswith(" "):
            features, _, kinds = line.strip().rpartition(": ")
            texts += [Refusal(why, features, kind) for kind in kinds.split(", ")]
        else:
            why = line.partition(": ")[2]
    return texts


MOST_REASONS = 50


@pytest.mark.parametrize("kind", KINDS)
def test_what_check_refuses_stands_in_the_list(kind: str) -> None:
    """`python -m tests.pairs` writes the list; a refusal that is new needs a contradiction in its meaning."""
    assert {*refusals((kind,))} == {letter for letter in listed() if letter.kind == kind}


def test_the_list_begins_with_the_number_of_refusals() -> None:
    """Nothing is hidden where one reason stands for several pairs."""
    reasons = {letter.why for letter in listed()}

    assert LIST.read_text(encoding="utf-8").startswith(
        f"{len(listed())} pairs are refused, for {len(reasons)} reasons\n"
    )
    assert len(reasons) <= MOST_REASONS


DYNAMIC = re.compile(r"(?<=the handler )\S+(?= has)|(?<=the handler )\S+(?=:? gets)|(?<=its results in )\S+(?= are)")


def test_the_guide_lists_what_cannot_be_replayed() -> None:
    """Each refusal of the list is a row of the table."""
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
    section = page.split("## What cannot be replayed")[1].split("\n## ")[0]
    rows = {line.split(" | ")[0].removeprefix("| ") for line in section.splitlines() if line.startswith("| ")}
    named = {row.replace("FUNCTION", "*").replace("TOPIC", "*") for row in rows}
    lines = replays.LIST.read_text(encoding="utf-8").splitlines()
    reasons = [line.lstrip().partition(" ")[2] for line in lines if line.startswith(" ")]
    refusals = {
        DYNAMIC.sub("*", reason) for reason in reasons if reason != "served" and not reason.startswith(replays.NOTHING)
    }
    assert refusals
    assert refusals - named == set()


def test_what_each_replay_refuses_stands_in_the_list() -> None:
    """`python -m tests.pairs` writes it, too."""
    assert [*replays.table()] == replays.LIST.read_text(encoding="utf-8").splitlines()
