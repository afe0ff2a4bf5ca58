"""The judge of the attack finds what is lost, late, dropped without a word, too large or unanswered."""

from typing import Any

from tests.hostile.agents import HALTS
from tests.hostile.verdict import judge

WELL: dict[str, Any] = {
    "good": {b"good-1": ("groups", 0, 100.0), b"good-2": ("groups", 1, 100.0)},
    "results": {b"good-1": 150.0, b"good-2": 101.0},
    "hostile": {b"hostile-1": ("groups", "deep, gzip"), b"hostile-2": (HALTS, "refused, lz4")},
    "ended": {b"hostile-1"},
    "halted": True,
    "memory": {1: 200.0},
    "unanswered": 0,
}


def said(**other: Any) -> str:
    return "\n".join(judge(**{**WELL, **other}).faults)


def test_a_run_in_which_all_held() -> None:
    assert said() == ""
    assert judge(**WELL).slowest == {"others": 1.0, "same": 50.0}


def test_each_fault_is_found() -> None:
    assert said(results={b"good-1": 150.0}) == "good-2 of groups/1 has no result"
    assert said(results={b"good-1": 150.0, b"good-2": 120.0}) == "good-2 of groups/1: its result came after 20.0 s"
    assert "good-1 of groups/0: its result came after 70.0 s" in said(results={b"good-1": 170.0, b"good-2": 101.0})
    assert "hostile-1 of groups (deep, gzip) has neither a result nor a dead letter" in said(ended=())
    assert "hostile-2 of refused" in said(halted=False)
    assert said(memory={7: 1025.0}) == "process 7 had 1025 MiB"
    assert said(unanswered=2) == "2 probes had no answer"
