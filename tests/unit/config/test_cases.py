"""The key `tests:`: what it becomes, and what is wrong with it, where."""

from pathlib import Path

import jsonschema
import pytest
import yaml

from sluicegate.streams.cases import ANYTHING, AdvanceStep, Case, Expect, ExpectNothing, SendCase
from sluicegate.streams.config.schema import schema
from tests.unit.config.files import GOOD, lines, loaded

HEAD = GOOD + "tests:\n  it works:\n"  # the first step stands in line 12
FIRST = HEAD.count("\n") + 1


def test_every_step_becomes_a_value_with_its_line(tmp_path):
    text = HEAD + (
        "  - send: {topic: orders, key: 7, value: {a: [1, 2.5, yes], b: 0x10}, headers: {h: 1}, partition: 3, times: "
        "20}\n"
        "  - send: {topic: orders, value_base64: e30=}\n"
        "  - send: {topic: orders, value: null}\n"
        "  - expect: {topic: totals}\n"
        "  - expect: {topic: shop.dead, key: k, value: null, reason: no-key, headers: {h: x}}\n"
        "  - advance: 1.5m\n"
        "  - expect_nothing: totals\n"
        "  another:\n  - advance: 1s\n"
    )
    file = loaded(tmp_path, text)
    assert file.problems == ()
    first, second = file.cases
    assert first == Case(
        "it works",
        FIRST - 1,
        (
            SendCase(FIRST, "orders", "7", {"a": [1, 2.5, "yes"], "b": 16}, {"h": "1"}, 3, 20),
            SendCase(FIRST + 1, "orders", None, b"{}"),
            SendCase(FIRST + 2, "orders", None, None),
            Expect(FIRST + 3, "totals", None, ANYTHING),
            Expect(FIRST + 4, "shop.dead", "k", None, "no-key", {"h": "x"}),
            AdvanceStep(FIRST + 5, 90.0),
            ExpectNothing(FIRST + 6, "totals"),
        ),
    )
    assert (second.name, second.line) == ("another", FIRST + 7)
    assert isinstance(first.steps[0], SendCase)
    assert type(first.steps[0].value["a"][0]) is int


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        ("- sent: {topic: orders, value: 1}", ":5: tests.it works[0]: is not a step; did you mean send?"),
        (
            "- topic: orders",
            ":5: tests.it works[0]: is not a step; known here: setup, handlers, row, deploy, send, expect, advance, "
            "expect_nothing, expect_rows",
        ),
        (
            "- send: orders",
            ":5: tests.it works[0].send: must be a mapping; write {topic: TOPIC, key: KEY, value: VALUE}",
        ),
        (
            "- send: {topic: orders}",
            ":5: tests.it works[0].send: needs one value; write value: ..., or value_base64: ...;",
        ),
        ("- send: {topic: orders, value: 1, value_base64: e30=}", ":5: tests.it works[0].send: needs one value; "),
        ("- send: {value: 1}", ":5: tests.it works[0].send.topic: is missing; write the topic's name"),
        (
            "- send: {topic: order, value: 1}",
            ":12: tests.it works[0].send.topic: is a topic that no agent reads; did you mean orders?",
        ),
        ("- send: {topic: orders, value_base64: '%'}", ":27: tests.it works[0].send.value_base64: is not base64; "),
        (
            "- send: {topic: orders, value: 1, partition: 4}",
            ":37: tests.it works[0].send.partition: must be at most 3; ",
        ),
        ("- send: {topic: orders, value: 1, times: 0}", ":37: tests.it works[0].send.times: must be at least 1; "),
        ("- send: {topic: orders, value: 1, headers: 3}", ":37: tests.it works[0].send.headers: must be a mapping; "),
        (
            "- expect: {topic: orders}",
            ":14: tests.it works[0].expect.topic: is a topic that no agent writes; known here: shop.dead,",
        ),
        ("- expect: {topic: totals, valu: 1}", ":29: tests.it works[0].expect.valu: unknown key; did you mean value?"),
        (
            "- expect_nothing: total",
            ":5: tests.it works[0].expect_nothing: is a topic that no agent writes, and no `expect` has; "
            "did you mean totals?",
        ),
        (
            "- advance: 30",
            ":5: tests.it works[0].advance: is not a duration; write one number and ms, s, m, h or d, such as 30s",
        ),
        (
            "- {advance: 1s, expect_nothing: totals}",
            ":5: tests.it works[0]: is not a step; write one of setup, handlers, row, deploy, send, expect,",
        ),
        (
            "- handlers: {enter: tests.unit.engine.handlers:forward}",
            ":16: tests.it works[0].handlers.enter: is not an agent with a handler; ",
        ),
        ("- {}", ":5: tests.it works[0]: is not a step; "),
        ("- later", ":5: tests.it works[0]: is not a step; "),
        ("- advance: ${LATER}", ":5: tests.it works[0].advance: ${LATER} is not set; "),
    ],
)
def test_a_mistake_is_said_at_its_place_and_only_once(tmp_path, step, problem):
    file = loaded(tmp_path, f"{HEAD}  {step}\n")
    (line,) = lines(file.problems, tmp_path)
    assert line.startswith(f"f.yaml:{FIRST}{problem}")
    assert file.cases == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("tests: []\n", "tests: must be a mapping"),
        ("tests: {a: {}}\n", "tests.a: has no steps"),
        ("tests: {a: []}\n", "tests.a: has no steps"),
    ],
)
def test_tests_that_are_no_mapping_of_lists_are_refused(tmp_path, text, problem):
    (line,) = lines(loaded(tmp_path, GOOD + text).problems, tmp_path)
    assert problem in line


def handled(path: Path, steps: str) -> list[str]:
    """What is wrong with a file whose agent has a handler, which may send to any topic."""
    text = GOOD.replace("aggregate: {count: 10}", "handler: tests.unit.engine.handlers:forward")
    return lines(loaded(path, f"{text}tests:\n  it works:\n{steps}").problems, path)


def test_nothing_is_expected_only_of_a_topic_that_may_have_a_message(tmp_path: Path) -> None:
    (line,) = handled(tmp_path, "  - expect_nothing: total\n")
    assert "expect_nothing: is a topic that no agent writes, and no `expect` has; did you mean totals?" in line


def test_a_topic_that_a_handler_sends_to_is_known_by_an_expectation(tmp_path: Path) -> None:
    assert handled(tmp_path, "  - expect_nothing: alarms\n  another:\n  - expect: {topic: alarms}\n") == []


def test_a_mistake_elsewhere_makes_no_second_one_here(tmp_path):
    text = HEAD.replace("from: orders", "form: orders") + "  - send: {topic: orders, value: 1}\n"
    assert {p.key for p in loaded(tmp_path, text).problems} == {"agents.a.from", "agents.a.form"}


def test_without_tests_there_are_none(tmp_path):
    assert loaded(tmp_path, GOOD).cases == ()
    assert loaded(tmp_path, GOOD + "tests:\n").cases == ()


@pytest.mark.parametrize(
    ("step", "good"),
    [
        ("send: {topic: orders, key: k, value: {a: [1]}, times: 3, partition: 0}", True),
        ("send: {topic: orders, value: null}", True),
        ("expect: {topic: totals, value: {a: 1}, reason: count, headers: {h: x}}", True),
        ("advance: 30s", True),
        ("advance: ${T:-30s}", True),
        ("expect_nothing: totals", True),
        ("sent: {topic: orders}", False),
        ("send: {value: 1}", False),
        ("advance: 30", False),
        ("{advance: 1s, expect_nothing: totals}", False),
        ("send: {topic: orders, times: 0}", False),
    ],
)
def test_an_editor_knows_the_steps(step, good):
    text = HEAD + f"  - {step}\n"
    assert (list(jsonschema.Draft202012Validator(schema()).iter_errors(yaml.safe_load(text))) == []) is good
