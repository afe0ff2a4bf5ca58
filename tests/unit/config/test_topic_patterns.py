"""`from: {pattern: ...}` in the file."""

import sys
from pathlib import Path

import pytest

from sluicegate.streams import topic_names
from sluicegate.streams.agent import Agent
from sluicegate.streams.config import load, meaning
from sluicegate.streams.config.checking import values
from sluicegate.streams.rules.document import document
from tests.unit.config.files import agent, lines, loaded

TO = "aggregate: {count: 10}\n        to: {topic: totals}"


def text_of(source: str, more: str = TO) -> str:
    return agent(
        f"""
        from: {source}
        {more}
        """
    )


def an_agent(folder: Path, text: str) -> Agent:
    checked = loaded(folder, text)
    assert checked.app is not None, checked.problems
    return checked.app.agents[0]


def problems(folder: Path, text: str) -> list[str]:
    return lines(loaded(folder, text).problems, folder)


def test_the_file_says_it(tmp_path: Path) -> None:
    built_agent = an_agent(tmp_path, text_of("[orders, {pattern: 'orders\\.eu-\\d+', dedupe: sluicegate}]"))
    assert built_agent.topics == ("orders", r"^orders\.eu-\d+")
    assert built_agent.receive == (r"^orders\.eu-\d+",)
    assert document(built_agent)["from"] == ["orders", {"pattern": r"orders\.eu-\d+", "dedupe": "sluicegate"}]
    assert meaning(built_agent)[0].startswith(r"reads orders and the topics that match orders\.eu-\d+ as json")


@pytest.mark.parametrize("source", ["{pattern: 'o.*s'}", "[orders, {pattern: 'p.*', envelope: cloudevents}]"])
def test_an_app_in_python_means_the_same(tmp_path: Path, source: str) -> None:
    checked = loaded(tmp_path, text_of(source))
    assert checked.app is not None
    values.check(checked.app)


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("{pattern: 'a(b'}", "pattern: is not a regular expression of RE2"),
        (r"{pattern: '(?=a)b'}", "pattern: is not a regular expression of RE2"),
        ("{pattern: ''}", "pattern: is not of 1 to 1000 characters"),
        ("{pattern: '__.*'}", "pattern: matches internal topics of Kafka, which a pattern must not match"),
        ("{pattern: a, topic: b}", "from: has both topic and pattern; write {topic: NAME} or {pattern: REGEX}"),
        ("{dedupe: sluicegate}", "from: names no topic; write {topic: NAME} or {pattern: REGEX}"),
        ("[{pattern: 'o.*'}, {pattern: 'o.*'}]", "from: names a topic twice"),
        ("[{pattern: 'o.*'}, orders]", "from: names orders, which the pattern o.* matches already"),
        (
            "{pattern: 'shop.*'}",
            "from: matches shop.dead, which dead letters of agent a go to: the agent would read what this file writes",
        ),
        (
            "{pattern: 't.*'}",
            "from: matches totals, which agent a writes its results to: the agent would read what this file writes",
        ),
    ],
)
def test_what_is_refused(tmp_path: Path, source: str, what: str) -> None:
    assert any(what in line for line in problems(tmp_path, text_of(source))), problems(tmp_path, text_of(source))


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ("key: id\n        repartition: o.keyed", "matches o.keyed, which agent a re-keys to"),
        ("history: o.history", "matches o.history, which agent a writes its history to"),
    ],
)
def test_topics_that_the_agent_makes_are_refused(tmp_path: Path, more: str, what: str) -> None:
    [line] = problems(tmp_path, text_of("{pattern: 'o\\..*'}", f"{TO}\n        {more}"))
    assert what in line
    assert line.endswith("narrow the pattern, or give the topic another name")


def test_what_another_agent_writes_is_read_by_its_name_only(tmp_path: Path) -> None:
    other = "  b:\n    from: other\n    to: {topic: orders.b}\n"
    [line] = problems(tmp_path, text_of("{pattern: 'orders.*'}") + other)
    assert "matches orders.b, which agent b writes its results to" in line
    assert line.endswith("narrow the pattern, or name the topic beside it, too")
    built_agent = an_agent(tmp_path, text_of("[{pattern: 'orders.*'}, orders.b]") + other)
    assert built_agent.receive == ("orders.b",)


def test_a_leg_may_have_a_pattern(tmp_path: Path) -> None:
    legs = "correlate: {legs: {order: {from: {pattern: 'ord.*'}}, payment: payments}, timeout: 20s}"
    app = loaded(tmp_path, agent(f"{legs}\nto: {{topic: out}}")).app
    assert app is not None
    order, payment, own = app.agents
    assert (order.topics, payment.topics) == (("^ord.*",), ("payments",))
    assert own.aggregation is not None
    assert own.aggregation.window is not None
    assert own.aggregation.window.origins == ("a.order/^ord.*", "a.payment/payments")
    assert topic_names.resolved(app, ["ord1", "ord2", "p"]).agents[0].topics == ("ord1", "ord2")
    window = topic_names.resolved(app, ["ord1", "ord2", "p"]).agents[2].aggregation
    assert window is not None
    assert window.window is not None
    assert window.window.origins == ("a.order/ord1", "a.order/ord2", "a.payment/payments")


def test_without_re2_the_problem_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    topic_names.matcher.cache_clear()
    try:
        [line] = problems(tmp_path, text_of("{pattern: 'o.*'}"))
    finally:
        topic_names.matcher.cache_clear()
    assert line.endswith('pattern: needs RE2, which is not installed; pip install "sluicegate[regex]"')


def test_a_pattern_matches_whole_names_and_none_of_kafka() -> None:
    names = ("^orders.*|.*offsets",)
    assert topic_names.matching(names, ["orders", "my-orders", "__consumer_offsets", "offsets"]) == [
        "offsets",
        "orders",
    ]
    assert topic_names.reads(names, "orders.eu")
    assert not topic_names.reads(names, "my-orders")
    assert not topic_names.reads(names, "__consumer_offsets")


def test_a_test_may_send_to_a_topic_that_matches(tmp_path: Path) -> None:
    tests = "tests:\n  one:\n    - send: {topic: TOPIC, key: k, value: {a: 1}}\n    - expect_nothing: totals\n"
    text = text_of("{pattern: 'orders.*'}") + tests
    assert load_problems(tmp_path, text.replace("TOPIC", "orders.eu")) == []
    [line] = load_problems(tmp_path, text.replace("TOPIC", "returns"))
    assert "is a topic that no agent reads" in line


def load_problems(folder: Path, text: str) -> list[str]:
    path = folder / "t.yaml"
    path.write_text(text)
    return [str(problem) for problem in load(path, {}).problems]
