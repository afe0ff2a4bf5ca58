"""`throttle`, `rate_limit`, `priority`, `singleton` and `debounce` in the file."""

from pathlib import Path

import pytest

from sluicegate.streams.agent import Agent, RateLimit, Throttle
from sluicegate.streams.config import meaning
from sluicegate.streams.config.checking import values
from sluicegate.streams.rules.changes import changes
from sluicegate.streams.rules.document import document
from tests.unit.config.files import agent, lines, loaded


def text_of(keys: str, handler: str = "handler: tests.unit.engine.handlers:note", more: str = "concurrency: 4") -> str:
    return agent(
        f"""
        from: orders
        {handler}
        {more}
        {keys}
        """
    )


def an_agent(folder: Path, text: str) -> Agent:
    checked = loaded(folder, text)
    assert checked.app is not None, checked.problems
    return checked.app.agents[0]


def test_the_file_says_it(tmp_path: Path) -> None:
    keys = "throttle: {limit: 100, per: 500ms, key: tenant, burst: 20}"
    [throttled] = [an_agent(tmp_path, text_of(keys)).handler]
    assert throttled is not None
    assert throttled.throttle == Throttle(limit=100, per=0.5, key="tenant", burst=20)
    limited = an_agent(tmp_path, text_of("rate_limit: {limit: 5, per: 1m, over: drop}")).handler
    assert limited is not None
    assert limited.rate_limit == RateLimit(limit=5, per=60.0, over="drop")
    alone = an_agent(tmp_path, text_of("singleton: account\n        priority: int(size)")).handler
    assert alone is not None
    assert (alone.singleton, alone.priority) == ("account", "int(size)")


@pytest.mark.parametrize(
    "keys",
    [
        "throttle: {limit: 100, per: 500ms, key: tenant, burst: 20}",
        "rate_limit: {limit: 5, per: 1m, over: drop}",
        "singleton: account",
        "priority: int(size)",
    ],
)
def test_an_app_in_python_means_the_same_and_open_groups_go_on_under_a_change(tmp_path: Path, keys: str) -> None:
    checked = loaded(tmp_path, text_of(keys))
    assert checked.app is not None
    values.check(checked.app)
    before = an_agent(tmp_path, text_of(""))
    [change] = changes(document(before), document(checked.app.agents[0]))
    assert change.kind.text == "the file"


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ("throttle: {per: 1s}", "f.yaml:10:5: agents.a.throttle.limit: is missing"),
        ("throttle: {limit: 5, per: 10ms}", "agents.a.throttle.per: is below 0.1 s"),
        ("throttle: {limit: 5, key: 'tenant +'}", "agents.a.throttle.key"),
        ("priority: '1 + true'", "agents.a.priority"),
        ("singleton: group.count", "agents.a.singleton: names group"),
        ("rate_limit: {limit: 5, over: wait}", "agents.a.rate_limit.over"),
        ("throttle: {limit: 0}", "agents.a.throttle.limit"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, keys: str, problem: str) -> None:
    complaints = lines(loaded(tmp_path, text_of(keys)).problems, tmp_path)
    assert any(problem in line for line in complaints), complaints


@pytest.mark.parametrize("name", ["throttle", "rate_limit", "priority", "singleton"])
def test_flow_control_needs_calls_outside_of_the_commit(tmp_path: Path, name: str) -> None:
    keys = f"{name}: " + ("{limit: 5}" if name in ("throttle", "rate_limit") else "amount")
    [problem] = lines(loaded(tmp_path, text_of(keys, more="")).problems, tmp_path)
    assert f"agents.a.{name}: needs concurrency" in problem
    [problem] = lines(loaded(tmp_path, text_of(keys, handler="to: {topic: out}", more="")).problems, tmp_path)
    assert f"agents.a.{name}: belongs to a handler" in problem


def test_the_meaning_is_said_in_words(tmp_path: Path) -> None:
    keys = "throttle: {limit: 100, key: tenant}"
    text = "\n".join(meaning(an_agent(tmp_path, text_of(keys))))
    assert "begins at most 100 calls in 1 s for each tenant, over all workers" in text


@pytest.mark.parametrize(
    ("debounce", "timeout"), [("10s", "{last: 10s}"), ("{period: 10s, at_most: 1m}", "{last: 10s, first: 1m}")]
)
def test_debounce_is_a_timeout_in_another_word(tmp_path: Path, debounce: str, timeout: str) -> None:
    one, other = (
        an_agent(tmp_path, text_of(f"aggregate: {{{keys}}}", handler="to: {topic: out}", more=""))
        for keys in (f"debounce: {debounce}", f"timeout: {timeout}")
    )
    assert one == other


def test_debounce_beside_a_timeout_is_refused(tmp_path: Path) -> None:
    keys = "aggregate: {debounce: 10s, timeout: 1m}"
    problems = loaded(tmp_path, text_of(keys, handler="to: {topic: out}", more="")).problems
    assert any("both timeout and debounce" in str(problem) for problem in problems)
