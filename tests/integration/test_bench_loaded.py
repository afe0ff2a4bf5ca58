"""Latency under load: a run at a part of its own top speed, and the table."""

from tests.bench.latency import Latency
from tests.bench.peers import loaded
from tests.bench.peers.peers import Tools

GOOD, LATE = Latency(2.0, 8.0, 12.0, 20.0, 0.0, []), Latency(9.0, 9.0, 9.0, 9.0, 0.0, ["7 results of 9 records"])


def test_latency_is_measured_at_a_part_of_the_top_speed(kafka, monkeypatch):
    monkeypatch.setattr(loaded, "SHARES", (25,))
    top, outcomes = loaded.once("sqlite", kafka, 2000, 1.0, Tools("", []))
    assert top > 0
    assert outcomes[25].problems == []
    assert 0 < outcomes[25].p50 <= outcomes[25].p99 <= outcomes[25].p999 <= outcomes[25].worst


def test_a_rate_that_is_too_much_has_no_figures_and_neither_have_those_above_it():
    outcomes = [(1000.0, {10: GOOD, 25: GOOD}), (3000.0, {10: GOOD._replace(p99=10.0), 25: LATE})]
    row = loaded.table({"sqlite": outcomes}).splitlines()[2]
    assert row.split(" | ")[2:] == ["2", "2 / 9 / 12", *["too much"] * 3, "too much |"]
