"""A deadline from the data in a file: its keys, mistakes, the meaning in words, and the same built in Python."""

from dataclasses import replace
from pathlib import Path

import pytest

from sluicegate.streams.agent import Agent, Aggregation, DataDeadline
from sluicegate.streams.config.checking import values
from sluicegate.streams.rules.changes import changes
from sluicegate.streams.rules.document import document
from tests.unit.config.files import agent, loaded


def an_agent(folder: Path, timeout: str, more: str = "", aggregate: str = "") -> Agent:
    file = loaded(folder, timed(timeout, more, aggregate))
    assert file.app is not None, file.problems
    return file.app.agents[0]


def timed(timeout: str, more: str = "", aggregate: str = "") -> str:
    return agent(
        f"""
        from: orders
        aggregate: {{count: 5, timeout: {timeout}{aggregate}}}
        to: {{topic: totals}}
        {more}
        """
    )


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("{at: due_at}", Aggregation(deadline=DataDeadline("due_at"))),
        ("{at: due.at, unit: ms, first: 1h}", Aggregation(3600.0, deadline=DataDeadline("due.at", unit="ms"))),
        ("{after: sla, since: last}", Aggregation(deadline=DataDeadline(after="sla", since="last"))),
        ("{after: 30s, since: last}", Aggregation(since_last=30.0)),
        ("{after: 2 * sla, unit: s}", Aggregation(deadline=DataDeadline(after="2 * sla", unit="s"))),
        ("{at: due, cancel: due == null}", Aggregation(deadline=DataDeadline("due", cancel="due == null"))),
    ],
)
def test_the_file_says_it(tmp_path: Path, text: str, rule: Aggregation) -> None:
    aggregation = an_agent(tmp_path, text).aggregation
    assert aggregation is not None
    wanted = rule.key if isinstance(rule.key, float) else rule.since_first
    assert (aggregation.deadline, aggregation.since_first, aggregation.since_last) == (
        rule.deadline,
        wanted,
        rule.since_last,
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{at: due_at, after: 30s}", "has both at and after"),
        ("{at: due_at, since: last}", "has both at and since"),
        ("{after: 30s, cancel: paused}", "has cancel, but no record gives the deadline"),
        ("{first: 30s, unit: ms}", "has unit, but no record gives the deadline"),
        ("{after: 30 sec}", "is not a duration"),
        ("{after: -30s}", "is not a duration"),
        ("due_at", "is not a duration"),
        ("{at: due_at +}", "ends too early"),
        ('{at: \'"x" + "y" == z\'}', "gives boolean, which is not an instant"),
        ("{at: size(items)}", "gives integer and no time"),
        ("{after: size(name)}", "gives integer and no duration"),
        ("{after: 'timestamp(due)'}", "gives time, which is not a time"),
        ("{at: group.due}", "names group, which only `until` can ask"),
        ("{at: message.when}", "message has no when"),
        ("{at: due, cancel: size(due)}", "integer"),
    ],
)
def test_a_mistake_is_told(tmp_path: Path, text: str, problem: str) -> None:
    file = loaded(tmp_path, timed(text))
    assert file.app is None
    assert any(problem in f"{item.message}; {item.hint}" for item in file.problems), file.problems


@pytest.mark.parametrize(
    ("more", "aggregate", "problem"),
    [
        ("", ", window: {tumbling: 1m}", "does not go together with a window"),
        ("fields: {due_at: number}", "", "gives number and no time"),
        ("fields: {due: time}", "", "no field due_at"),
        ("format: raw", "", "needs the field due_at, but raw records have none"),
    ],
)
def test_what_contradicts_it_is_told(tmp_path: Path, more: str, aggregate: str, problem: str) -> None:
    file = loaded(tmp_path, timed("{at: due_at}", more, aggregate))
    assert any(problem in item.message for item in file.problems), file.problems


def test_a_field_that_may_be_missing_is_no_warning(tmp_path: Path) -> None:
    file = loaded(tmp_path, timed("{at: due_at, first: 1d}", "fields: {due_at: time or null}"))
    assert file.app is not None, file.problems
    assert [warning for warning in file.warnings if "due_at" in warning.message] == []


def test_python_says_the_same(tmp_path: Path) -> None:
    for text in ("{at: due_at, unit: ms, first: 30s}", "{after: sla, since: last, cancel: paused == true}"):
        file = loaded(tmp_path, timed(text))
        assert file.app is not None
        values.check_without_systems(file.app)


def test_another_expression_is_another_end_of_groups(tmp_path: Path) -> None:
    one = an_agent(tmp_path, "{at: due_at}")
    rule = one.aggregation
    assert rule is not None
    other = replace(one, aggregation=replace(rule, deadline=DataDeadline("due", cancel="paused")))
    paths = {change.path: change.kind.text for change in changes(document(one), document(other))}
    assert paths == {"aggregate.timeout.at": "end of a group", "aggregate.timeout.cancel": "end of a group"}
