"""No key is accepted that does nothing, alone or beside another key, unless idle.txt has a reason that is right."""

from collections.abc import Iterator

import pytest

from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation import accept
from tests.pairs import idle
from tests.pairs.features import FEATURES


@pytest.fixture(autouse=True)
def played_anew() -> Iterator[None]:
    """What a patched product does is not remembered."""
    yield
    idle.outcome.cache_clear()


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", idle.PLAYED)
def test_what_changes_nothing_stands_in_the_list(kind: str) -> None:
    """`python -m tests.pairs` writes the list. A line that is new needs a reason, a refusal by `check`, or a product
    that honours the key."""
    listed = [line for line in idle.LIST.read_text(encoding="utf-8").splitlines() if line.startswith(f"{kind}, ")]

    assert [*idle.table(kind)] == listed


def test_each_line_of_the_list_has_a_reason_and_each_reason_a_line() -> None:
    lines = idle.LIST.read_text(encoding="utf-8").splitlines()

    assert [line for line in lines if line.endswith(": ")] == []
    assert [why for why in idle.REASONS.values() if not any(line.endswith(f": {why}") for line in lines)] == []


@pytest.mark.parametrize(
    ("kind", "name", "other"),
    [
        ("forwarder", "JSON Schema records", "select of records"),
        ("groups", "on_null: skip", "count"),
        ("groups", "retry", "then: park"),
        ("groups", "concurrency", "then: park"),
        ("handler of records", "retry of records", "then: park of records"),
        ("tumbling", "late: skip", "sum"),
        ("correlation by event time", "on_error: expression: skip", "keep: all"),
    ],
)
def test_a_key_changes_something_beside_another(kind: str, name: str, other: str) -> None:
    assert idle.changes(kind, name, FEATURES[other].keys)


def test_a_forwarder_that_validates_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert idle.changes("forwarder", "JSON Schema records", {})
    idle.outcome.cache_clear()
    monkeypatch.setattr(Agent, "passes_values", property(lambda agent: agent.forwards))

    assert not idle.changes("forwarder", "JSON Schema records", {})


def test_a_policy_that_is_not_asked_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    unread = accept._unread
    assert idle.changes("groups", "on_null: skip", FEATURES["count"].keys)
    idle.outcome.cache_clear()
    monkeypatch.setattr(
        accept, "_unread", lambda groups, record, policy, *why: unread(groups, record, "dead-letter", *why)
    )

    assert not idle.changes("groups", "on_null: skip", FEATURES["count"].keys)
