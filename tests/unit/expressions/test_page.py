"""What docs/expressions.md shows, works as it says."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from sluicegate.streams.expressions.check import check, check_condition
from sluicegate.streams.expressions.exact import exact
from sluicegate.streams.expressions.parse import parse
from sluicegate.streams.expressions.signatures import SIGNATURES

PAGE = (Path(__file__).parents[3] / "docs" / "expressions.md").read_text()
(SHOWN,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.S)
CONDITIONS = yaml.safe_load(SHOWN)
(TEN,) = re.findall(r"```\n(status.*?)```", PAGE, re.S)


@pytest.mark.parametrize("shown", CONDITIONS, ids=[shown["condition"] for shown in CONDITIONS])
def test_a_condition_of_the_page_has_the_answer_that_it_states(shown: dict[str, Any]) -> None:
    node = parse(shown["condition"])
    assert check_condition(node, {}) == ()
    assert exact(node, lambda name: lambda record: record.get(name))(shown["record"]) is shown["answer"]


def test_the_page_has_twenty_conditions() -> None:
    assert len(CONDITIONS) == 20


def test_the_ten_lines_parse_and_the_check_finds_nothing() -> None:
    lines = [re.split(r"\s{3,}", line)[0] for line in TEN.splitlines()]
    assert len(lines) == 10
    for line in lines:
        assert check(parse(line), {})[1] == ()


def test_the_table_has_every_function() -> None:
    table = PAGE[PAGE.index("## Functions") : PAGE.index("## Missing values")]
    known = set(re.findall(r"\b((?:math\.)?[a-z]\w+)\b(?=[(`])", table))
    assert set(SIGNATURES) <= known
    assert known - set(SIGNATURES) == {"has", "default", "all", "exists", "exists_one", "filter", "map"}
