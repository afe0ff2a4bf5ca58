"""The judge of the attack finds what is lost, late, dropped without a word, too large or unanswered."""

from typing import Any

from tests.hostile.agents import FORGED, HALTS, UNPACKED
from tests.hostile.counts import DELAY, Counts
from tests.hostile.senders import Hostile
from tests.hostile.verdict import judge

COUNTED = Counts({FORGED: 1.0})
WELL: dict[str, Any] = {
    "good": {b"good-1": ("groups", 0, 100.0), b"good-2": ("groups", 1, 100.0), b"good-3": (UNPACKED, 2, 100.0)},
    "results": {b"good-1": 150.0, b"good-2": 101.0, b"good-3": 120.0},
    "hostile": {
        b"hostile-1": Hostile("groups", 0, "deep, gzip", 100.0),
        b"hostile-2": Hostile(HALTS, 0, "refused, lz4", 100.0),
        b"hostile-3": Hostile(FORGED, 0, "forged time marks, none", 100.0),
    },
    "ended": {b"hostile-1"},
    "halted": {(HALTS, 0)},
    "counts": COUNTED,
    "memory": {"groups": 200.0},
    "unanswered": 0,
}


def said(**other: Any) -> str:
    return "\n".join(judge(**{**WELL, **other}).faults)


def later(**results: float) -> dict[bytes, float]:
    return WELL["results"] | {name.replace("_", "-").encode(): at for name, at in results.items()}


def test_a_run_in_which_all_held() -> None:
    assert said() == ""
    assert judge(**WELL).slowest == {"others": 1.0, "same": 50.0, "beside": 20.0}


def test_each_fault_is_found() -> None:
    assert said(results={b"good-1": 150.0, b"good-3": 101.0}) == "good-2 of groups/1 has no result"
    assert said(results=later(good_2=120.0)) == "good-2 of groups/1: its result came after 20.0 s"
    assert said(results=later(good_1=170.0)) == "good-1 of groups/0: its result came after 70.0 s"
    assert said(results=later(good_3=170.0)) == "good-3 of unpacked/2: its result came after 70.0 s"
    assert "hostile-1 of groups/0 (deep, gzip) has neither a result nor a dead letter" in said(ended=())
    assert "hostile-2 of refused/0" in said(halted=())
    assert said(halted={(HALTS, 0), ("groups", 0)}) == "groups/0 halted"
    assert said(memory={"groups": 1025.0}) == "a process of groups had 1025 MiB"
    assert said(unanswered=2) == "2 probes had no answer"


def test_forged_marks_that_nobody_counted_are_dropped_without_a_word() -> None:
    assert said(counts=Counts()).startswith("hostile-3 of windows/0 (forged time marks, none) has neither")


METRIC = 'sluicegate_headers_refused_total{{agent="windows",reason="unproven",worker="0"}} {:.1f}\n'


def test_counts_go_on_when_a_process_begins_again() -> None:
    counts = Counts()
    for at, number in ((1.0, 2), (2.0, 5), (3.0, 1), (4.0, 3)):
        counts.read(METRIC.format(number), at)
    assert counts.refused == {"windows": 8.0}
    assert [counts.seen(at) for at in (1.9 - DELAY, 2.5, 3.1)] == [True, False, True]
