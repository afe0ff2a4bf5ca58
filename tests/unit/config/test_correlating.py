"""`correlate` in a file: what it means, mistakes, and the same correlation built in Python."""

from pathlib import Path

import pytest

from sluicegate.streams.agent import Agent, Aggregation, App, Correlation, Destination, Reducer, Window
from sluicegate.streams.config import words
from sluicegate.streams.config.checking import values
from sluicegate.streams.keys import FILE
from sluicegate.streams.rules.changes import changes, policies_of
from sluicegate.streams.rules.document import document
from tests.unit.config.files import agent, lines, loaded

PAYMENT, NOTE = "{from: payments, key: order_id, keep: last}", "{from: notes, keep: all}"
LEGS = f"{{order: {{from: orders, key: id}}, payment: {PAYMENT}, note: {NOTE}}}"


def correlated(correlate: str = f"{{legs: {LEGS}, timeout: 15m}}", more: str = "") -> str:
    return agent(
        f"""
        correlate: {correlate}
        to: {{topic: settled}}
        {more}
        """
    )


def an_app(folder: Path, *arguments: str) -> App:
    file = loaded(folder, correlated(*arguments))
    assert file.app is not None, file.problems
    return file.app


def test_topics_beside_correlate_are_one_problem(tmp_path: Path) -> None:
    """The agent is not known then, so nothing is said about its topics in the tests."""
    text = correlated(more="from: orders") + "tests:\n  t:\n  - send: {topic: orders, value: {}}\n"
    [line] = lines(loaded(tmp_path, text).problems, tmp_path)
    assert line == "f.yaml:6:3: agents.a: has both from and correlate; leave from out: the legs name the topics"


def test_a_file_means_an_agent_for_each_leg_and_an_aggregation(tmp_path: Path) -> None:
    *legs, main = an_app(tmp_path).agents
    through = main.topics[0]
    assert [(leg.leg, leg.rekeys, leg.topics, leg.to) for leg in legs] == [
        (leg, main.name, (topic,), Destination(through, "raw"))
        for leg, topic in (("order", "orders"), ("payment", "payments"), ("note", "notes"))
    ]
    assert [leg.aggregation and leg.aggregation.key for leg in legs] == ["id", "order_id", None]
    assert main.receive == (through,)
    origins = tuple(f"{leg.name}/{topic}" for leg in legs for topic in leg.topics)
    assert main.aggregation == Aggregation(
        window=Window(900.0, idle=10.0, at_most=4500.0, kind="correlation", origins=origins),
        until="has(group.order) && has(group.payment) && has(group.note)",
        compute=(
            Reducer("order", "first", "order"),
            Reducer("payment", "last", "payment"),
            Reducer("note", "collect", "note"),
        ),
        on_missing="ignore",
        correlation=Correlation(),
    )


def test_with_clock_wall_it_has_a_timeout_and_no_times(tmp_path: Path) -> None:
    for since, wanted in (("first", (60.0, None)), ("last", (None, 60.0))):
        timeout = f"{{after: 1m, since: {since}, clock: wall}}"
        *legs, main = an_app(tmp_path, f"{{legs: {LEGS}, timeout: {timeout}}}").agents
        assert main.aggregation is not None
        assert (main.aggregation.since_first, main.aggregation.since_last) == wanted
        assert main.aggregation.window is None
        assert {leg.times for leg in legs} == {None}


def test_each_leg_has_its_own_time(tmp_path: Path) -> None:
    legs = "{order: {from: orders, time: at}, payment: {from: payments, time: {field: paid.ts, unit: ms}}, note: notes}"
    agents = an_app(tmp_path, f"{{legs: {legs}, timeout: {{after: 1m, idle: never, at_most: 2h}}}}").agents[:-1]
    times = [agent.times for agent in agents if agent.times is not None]
    assert [(time.time, time.unit) for time in times] == [("at", "rfc3339"), ("paid.ts", "ms"), (None, "rfc3339")]
    assert {(time.size, time.idle, time.at_most) for time in times} == {(60.0, None, 7200.0)}


@pytest.mark.parametrize(
    ("complete", "until"),
    [
        ("has(order) || has(payment)", "has(group.order) || has(group.payment)"),
        ("order.total > 10 && size(note) >= 2", "group.order.total > 10 && size(group.note) >= 2"),
        ("[1, 2].exists(each, each == order.total)", "[1, 2].exists(each, each == group.order.total)"),
    ],
)
def test_complete_is_asked_of_the_group(tmp_path: Path, complete: str, until: str) -> None:
    aggregation = an_app(tmp_path, f'{{legs: {LEGS}, timeout: 15m, complete: "{complete}"}}').agents[-1].aggregation
    assert aggregation is not None
    assert aggregation.until == until


@pytest.mark.parametrize(
    ("correlate", "more", "text"),
    [
        (f"{{legs: {LEGS}}}", "", "timeout: is missing; write 30s or {after: 30s, since: first}"),
        ("{legs: {a: in}, timeout: 1m}", "", "must be 2 to 16 legs, not 1"),
        (f'{{legs: {LEGS}, timeout: 15m, complete: "order && payment"}}', "", "&& takes booleans, order is map"),
        ("{legs: {a: in, b: in}, timeout: 1m}", "", "read the topic in twice"),
        ("{legs: {a: in, key: other}, timeout: 1m}", "", "is not the name of a leg"),
        ("{legs: {a: in, b: other}, timeout: 1m, complete: has(c)}", "", "names c, which is not a leg"),
        ("{legs: {a: in, b: other}, timeout: 1m, complete: has(}", "", "complete"),
        ("{legs: {a: {from: in, keep: all}, b: c}, timeout: 1m, complete: a.x > 1}", "", "write has(a) or size(a)"),
        ("{legs: {a: in, b: other}, timeout: 1m, through: in}", "", "is a topic that a leg reads"),
        (f"{{legs: {LEGS}, timeout: 15m}}", "from: other", "the legs name the topics"),
        (f"{{legs: {LEGS}, timeout: 15m}}", "key: id", "write it in the legs: correlate.legs.NAME.key"),
        (f"{{legs: {LEGS}, timeout: 15m}}", "format: avro", "write it in the legs: correlate.legs.NAME.format"),
        (f"{{legs: {LEGS}, timeout: 15m}}", "aggregate: {count: 2}", "does not go together with correlate"),
        (f"{{legs: {LEGS}, timeout: 15m}}", "scope: shared", "does not go together with correlate"),
        (f"{{legs: {LEGS}, timeout: 15m, late: never}}", "", "late"),
        (f"{{legs: {LEGS}, timeout: {{since: last}}}}", "", "after"),
        (f"{{legs: {LEGS}, timeout: {{after: 1m, clock: sun}}}}", "", "clock"),
        (f"{{legs: {LEGS}, timeout: {{after: 1m, clock: wall, idle: 1s}}}}", "", "does not go together with clock"),
        (f"{{legs: {LEGS}, timeout: {{after: 1m, at_most: 30s}}}}", "", "is below after, 1 min"),
        (
            f"{{legs: {LEGS}, timeout: {{after: 1m, idle: never, at_most: never}}}}",
            "",
            "for a leg of a silent topic for ever",
        ),
        ("{legs: {a: {from: in, time: at}, b: c}, timeout: {after: 1m, clock: wall}}", "", "with clock: wall"),
        ("{legs: {window: in, b: c}, timeout: 1m}", "", "is not the name of a leg"),
        ("{legs: {a: {from: in, kee: id}, b: c}, timeout: 1m}", "", "unknown key; did you mean keep?"),
        ("{legs: {a: {from: in, time: {fild: at}}, b: c}, timeout: 1m}", "", "names no field"),
        ("{legs: {a: in, b: c}, timeout: {after: 1m, clok: wall}}", "", "did you mean clock?"),
    ],
)
def test_a_mistake_is_found(tmp_path: Path, correlate: str, more: str, text: str) -> None:
    file = loaded(tmp_path, correlated(correlate, more))
    assert file.app is None
    assert any(text in line for line in lines(file.problems, tmp_path)), lines(file.problems, tmp_path)


def test_a_leg_with_the_name_of_a_field_of_the_result_is_one_problem(tmp_path: Path) -> None:
    [line] = lines(loaded(tmp_path, correlated("{legs: {a: in, key: other}, timeout: 1m}", "")).problems, tmp_path)
    assert "agents.a.correlate.legs.key: is not the name of a leg" in line


def test_a_mistake_in_complete_is_shown_as_it_is_written(tmp_path: Path) -> None:
    correlate = """{legs: {a: ta, b: tb}, timeout: 1m, complete: 'size(a.group.amount) > 3 && "x" + 3 == 4'}"""
    file = loaded(tmp_path, correlated(correlate))
    assert lines(file.problems, tmp_path) == [
        "f.yaml:7:91: agents.a.correlate.complete: + takes two numbers, texts or lists, or a time and a duration, "
        '"x" is text and 3 is integer; correct the expression'
    ]


def test_the_same_correlation_may_be_built_in_python(tmp_path: Path) -> None:
    more = "late: skip, remember: 1d, complete: has(order)"
    for timeout in ("15m", "{after: 1m, since: last, clock: wall}", "{after: 1m, since: last, idle: never}"):
        values.check(an_app(tmp_path, f"{{legs: {LEGS}, timeout: {timeout}, {more}}}"))


def test_its_meaning_in_words(tmp_path: Path) -> None:
    *legs, main = an_app(tmp_path).agents
    assert any("as the leg payment" in sentence for sentence in words.meaning(legs[1]))
    assert any("remembers ended keys for 1 h" in sentence for sentence in words.meaning(main))
    assert not any("a later record of the key starts a new group" in sentence for sentence in words.meaning(main))


def test_bounds_of_its_groups_are_those_of_the_rule(tmp_path: Path) -> None:
    app = an_app(tmp_path, f"{{legs: {LEGS}, timeout: 15m, hot_groups: 1000, max_groups: 5000000}}")
    rule = app.agents[-1].aggregation
    assert rule is not None
    assert (rule.hot_groups, rule.max_groups) == (1000, 5_000_000)
    assert [agent.aggregation and agent.aggregation.hot_groups for agent in app.agents[:-1]] == [1_000_000] * 3
    values.check(app)


@pytest.mark.parametrize("clock", ["event", "wall"])
def test_more_hot_groups_than_groups_bound_nothing(clock: str, tmp_path: Path) -> None:
    timeout, warnings = f"{{after: 1m, clock: {clock}}}", []
    for bounds in ("hot_groups: 1000", "hot_groups: 1000, max_groups: 1000"):
        file = loaded(tmp_path, correlated(f"{{legs: {LEGS}, timeout: {timeout}, {bounds}}}"))
        assert file.problems == ()
        warnings.append(
            [line.partition(" agents.")[2] for line in lines(file.warnings, tmp_path) if "hot_groups" in line]
        )
    assert warnings == [
        [],
        [
            "a.correlate.hot_groups: bounds nothing: a partition has at most 1,000 groups by max_groups; write a lower "
            "number, or leave it out"
        ],
    ]


def policies(old: Agent, new: Agent) -> tuple[str, ...]:
    return policies_of(changes(document(old), document(new)))


def test_open_groups_go_on_after_other_times_and_not_with_other_legs(tmp_path: Path) -> None:
    old = an_app(tmp_path).agents[-1]
    longer = an_app(tmp_path, f"{{legs: {LEGS}, timeout: 20m, remember: 2h, late: skip}}").agents[-1]
    other = an_app(tmp_path, f"{{legs: {LEGS.replace('keep: last', 'keep: first')}, timeout: 15m}}").agents[-1]
    assert policies(old, longer) == ("finish", "convert", "flush", "drop")
    smaller = an_app(tmp_path, f"{{legs: {LEGS}, timeout: 15m, max_groups: 9}}").agents[-1]
    assert policies(old, smaller) == ("finish", "convert", "flush", "drop")
    hotter = an_app(tmp_path, f"{{legs: {LEGS}, timeout: 15m, hot_groups: 9}}").agents[-1]
    assert [change.kind for change in changes(document(old), document(hotter))] == [FILE]
    assert policies(old, other) == ("finish", "flush", "drop")
    wall = an_app(tmp_path, f"{{legs: {LEGS}, timeout: {{after: 15m, clock: wall}}}}").agents[-1]
    assert policies(old, wall) == ("flush", "drop")
    last = an_app(tmp_path, f"{{legs: {LEGS}, timeout: {{after: 15m, since: last, at_most: 5h}}}}").agents[-1]
    assert policies(old, last) == ("finish", "convert", "flush", "drop")
