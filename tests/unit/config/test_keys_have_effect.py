"""No key that says what becomes of a completed group is accepted and does nothing.

Some groups of each run expire by their timeout, the others reach their count. Each key changes what is written beside
each other key, or `check` refuses the file. `on_timeout: fire` is the default, so that the runs without `on_timeout`
are its runs.
"""

import itertools
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sluicegate.streams.config import loading
from sluicegate.streams.config.text import document
from sluicegate.streams.testing.driver import TestDriver

pytestmark = pytest.mark.timeout(60)
HERE = "tests.unit.config.test_keys_have_effect"
KEYS = ("handler", "having", "on_timeout: discard", "on_timeout: dead-letter", "select", "routes", "to")
ENDS = {"timeout": {"timeout": "30s"}, "count or timeout": {"timeout": "30s", "count": 3}}
GROUPS = {"late-small": [1], "late-large": [5, 5], "small": [1, 1, 1], "large": [9, 9, 9]}
"""By their keys: the amounts of their records."""
LATE = ["late-large", "late-small"]
HOW: dict[str, dict[str, Any]] = {
    "handler": {},
    "session": {"handler": f"{HERE}:in_session", "session": True},
    "concurrency": {"concurrency": 2},
    "then: park": {"then": "park"},
    "shared": {"scope": "shared"},
    "lookup": {"lookup": {"customer": {"key": "key", "table": "customers", "column": "id", "fields": ["name"]}}},
}
Written = tuple[str, str, str, str]
"""Topic, key, value, and the reason of a dead letter."""


def handle(batch: Any, send: Any) -> None:
    """Send other values than the result has."""
    send({"count": batch.count, "total": batch.value["total"] + 1, "handled": True})


def in_session(batch: Any, send: Any, session: Any) -> None:
    """As `handle`, in the transaction of the store."""
    handle(batch, send)


def file(keys: frozenset[str], ends: str, more: dict[str, Any]) -> str:
    """A file whose agent has these keys."""
    output: dict[str, Any] = {"topic": "elsewhere" if "to" in keys else "out"}
    if "select" in keys:
        output["select"] = {"sum": "total"}
    aggregate = {**ENDS[ends], "compute": {"total": {"sum": "n"}}}
    agent: dict[str, Any] = {"from": "in", "aggregate": aggregate, "to": output}
    if "routes" in keys:
        agent["to"] = [{**output, "topic": "large", "where": "total > 5"}, output]
    for policy in [key.removeprefix("on_timeout: ") for key in keys if key.startswith("on_timeout")]:
        aggregate["on_timeout"] = policy
    agent |= {"handler": f"{HERE}:handle"} if "handler" in keys else {}
    agent |= {"having": "total > 5"} if "having" in keys else {}
    head = {"app": "shop", "kafka": {"bootstrap.servers": "localhost:9092"}, "store": "memory://"}
    return json.dumps(head | {"dead_letters": "dead", "agents": {"a": agent | more}})


def problems(text: str) -> list[str]:
    """What `check` says."""
    folder = Path(__file__).parent
    return [problem.key for problem in loading.judge(document.parse(text, {}, folder), "shop.yaml", folder).problems]


def written(text: str, folder: Path) -> list[Written]:
    """What the agent of the file writes."""
    path = folder / "shop.yaml"
    path.write_text(text, encoding="utf-8")
    with TestDriver(path, partitions=1) as driver:
        if '"lookup"' in text:
            for key in GROUPS:
                driver.put_row("customers", key, {"name": key})
        for key, amounts in GROUPS.items():
            for amount in amounts:
                driver.send("in", {"n": amount}, key=key)
        driver.advance(60.0)
        assert driver.troubles() == []
        return sorted(
            (
                output.topic,
                str(output.key),
                json.dumps(shape(output.value)),
                output.headers.get("sluicegate-dead-reason") or "",
            )
            for topic in driver.output_topics
            for output in driver.read(topic)
        )


def shape(value: Any) -> Any:
    """The value without its times."""
    return {name: field for name, field in value.items() if not name.endswith("_at")}


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What an agent with these keys writes; None if `check` refuses it."""
    folder = tmp_path_factory.mktemp("keys")

    @cache
    def run(keys: frozenset[str], ends: str) -> list[Written] | None:
        text = file(keys, ends, {})
        return None if problems(text) else written(text, folder)

    return run


def together(one: str, other: str) -> bool:
    return one.partition(":")[0] != other.partition(":")[0]


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize(("one", "other"), [pair for pair in itertools.permutations(KEYS, 2) if together(*pair)])
def test_a_key_changes_what_is_written_beside_another_key(outcome: Any, ends: str, one: str, other: str) -> None:
    both = outcome(frozenset({one, other}), ends)

    assert both is None or both != outcome(frozenset({one}), ends)


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("key", KEYS)
def test_a_key_alone_changes_what_is_written(outcome: Any, ends: str, key: str) -> None:
    assert outcome(frozenset({key}), ends) != outcome(frozenset(), ends)


@pytest.mark.parametrize("policy", ["discard", "dead-letter"])
@pytest.mark.parametrize("how", HOW)
def test_no_handler_gets_a_group_that_expires(policy: str, how: str, tmp_path: Path) -> None:
    text = file(frozenset({"handler", f"on_timeout: {policy}"}), "count or timeout", HOW[how])
    assert problems(text) == []
    made = written(text, tmp_path)

    assert [(topic, key) for topic, key, *_ in made if topic != "dead"] == [("out", "large"), ("out", "small")]
    assert [(key, reason) for topic, key, _, reason in made if topic == "dead"] == [
        (key, "timeout") for key in LATE if policy == "dead-letter"
    ]


@pytest.mark.parametrize("policy", ["discard", "dead-letter"])
@pytest.mark.parametrize("key", ["having", "handler", "routes", "select"])
def test_a_policy_that_leaves_no_result_is_refused(policy: str, key: str) -> None:
    assert problems(file(frozenset({key, f"on_timeout: {policy}"}), "timeout", {})) == ["agents.a.aggregate.on_timeout"]
