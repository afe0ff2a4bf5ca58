"""No record and no expression holds the process for long, and the same pair gives the same result everywhere."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sluicegate.streams.expressions import exact
from sluicegate.streams.expressions.values import StepBudget
from tests.expressions.bounds import LARGEST, evaluations, limit, longest

PROJECT = Path(__file__).resolve().parents[2]
DIGEST = "from tests.expressions.bounds import digest; print(digest(5, 2_000))"


def test_no_evaluation_takes_100_ms() -> None:
    """`python -m tests.expressions` takes the other records, too."""
    before, outcome = limit(), list(evaluations(("objects", "long texts", "times")))
    most = max(before, limit())
    assert [item for item in outcome if item.seconds > most] == []
    outcomes = {item.outcome for item in outcome}
    assert outcomes == {"value", "error", "too costly"}


def test_twin_a_loop_whose_body_costs_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "_SHARE", 1_000_000)
    assert any(evaluation.seconds > limit() for evaluation in evaluations(["integers"]))


def test_no_evaluation_makes_a_value_that_is_much_longer_than_its_record() -> None:
    size, record, text = longest()
    assert size <= LARGEST, (record, text)


def test_twin_a_text_that_many_maps_hold_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StepBudget, "keep", lambda budget, value: None)
    assert longest(["long texts"])[0] > LARGEST


def test_results_do_not_depend_on_the_hash_seed() -> None:
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", DIGEST],
            cwd=PROJECT,
            env=environ | {"PYTHONHASHSEED": str(seed)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in range(3)
    ]
    digests = [process.communicate(timeout=120)[0] for process in started]
    assert len(set(digests)) == 1
    assert len(digests[0].strip()) == 64
