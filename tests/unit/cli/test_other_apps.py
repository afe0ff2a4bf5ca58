"""`check --connect` tells of other apps that have state in the same store."""

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import App
from sluicegate.streams.cli.checking import systems
from sluicegate.streams.contracts.values import Partition


@pytest.mark.parametrize(("others", "text"), [((), ""), (("b", "c"), "also has the state of b, c: ")])
def test_other_apps_of_a_store_are_named(others: tuple[str, ...], text: str) -> None:
    store = MemoryStore(lambda: 0.0)
    for name in ("a", *others):
        store.claim(Partition(name, "agent", "topic", 0), "token", "member")
    findings = [*systems._others(App("a", "memory://", ()), store)]
    assert [finding.text[: len(text)] for finding in findings] == ([text] if text else [])
    assert all("give each app a database of its own" in finding.hint for finding in findings)
