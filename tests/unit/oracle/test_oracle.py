"""The engine sends what plain Python says, whatever the clauses of the file and the records.

`make test` plays the same seeds every day; the rest adds a thousand seeds of the day. `make oracle` plays 10,000.
"""

from pathlib import Path

import pytest

from tests.selection import today
from tests.unit.oracle.cases import case
from tests.unit.oracle.playing import by_plain_python, difference

BLOCKS, EACH = 8, 75
DAY_BLOCKS, OF_A_DAY = 10, 100
FIRST = 10_000 + today() % 1_000 * DAY_BLOCKS * OF_A_DAY
"""The first seed of the day."""


def all_agree(seeds: range, folder: Path) -> None:
    differing = []
    for seed in seeds:
        if text := difference(case(seed), folder / "file.yaml"):
            differing.append(f"seed {seed}: {case(seed)}\n{text}")
    assert not differing, "\n\n".join(differing[:3])


@pytest.mark.parametrize("block", range(BLOCKS))
def test_any_file_and_any_records_give_what_plain_python_says(block: int, tmp_path: Path) -> None:
    all_agree(range(block * EACH, (block + 1) * EACH), tmp_path)


@pytest.mark.parametrize("block", range(DAY_BLOCKS))
def test_the_seeds_of_the_day_do_as_well(block: int, tmp_path: Path) -> None:
    all_agree(range(FIRST + block * OF_A_DAY, FIRST + (block + 1) * OF_A_DAY), tmp_path)


def test_the_seeds_use_every_clause_and_most_results_are_no_dead_letters() -> None:
    """Else the comparison would say little."""
    cases = [case(seed) for seed in range(BLOCKS * EACH)]
    clauses = {name for case in cases for name in case.agent}
    rules = {name for case in cases for name in case.agent.get("aggregate", {})}
    assert clauses == {"from", "where", "let", "dedupe", "key", "on_error", "aggregate", "having", "to", "correlate"}
    limits = {"max_items", "max_groups", "max_bytes", "on_full"}
    assert rules == {"compute", "count", "until", "timeout", "on_timeout", "window", "on_null", "on_missing", *limits}
    sent = [by_plain_python(case) for case in cases]
    dead = {text.split()[1] for message in sent for text in message["dead"]}
    assert dead >= {"expression-failed", "no-id", "no-key", "missing-field", "wrong-type", "null-value", "undecodable"}
    assert dead >= {"bad-time", "late", "limit", "overflow", "timeout", "too-large", "unrouted"}
    assert sum(bool(message["out"] or message["other"] or message["third"]) for message in sent) > len(sent) * 0.6
