"""Seeds, one after the other, and what they say."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
import structlog

from sluicegate.streams.aggregation import groups
from sluicegate.streams.aggregation.durable import changelog
from sluicegate.streams.engine import build_shared as shared
from sluicegate.streams.engine import commits, worker
from sluicegate.streams.outbox import relay
from sluicegate.streams.ownership import beginning
from tests.simulation.coverage import Met
from tests.simulation.judge import judge
from tests.simulation.plan import Plan, plan
from tests.simulation.world import World

SMALL = (
    (changelog, "SLACK", 2_000),
    (changelog, "SLICE", 300),
    (changelog, "GROWTH", 1),
    (groups, "STALE", 3),
    (worker, "CHUNK", 12),
    (relay, "SPREAD", 40),
    (relay, "IN_MEMORY", 30),
    (relay, "RESUME_BELOW", 10),
    (relay, "PAGE", 7),
    (commits, "COMMIT_RECORDS", 24),
    (commits, "COMMIT_CALLS", 10),
    (commits, "COMMIT_SESSION", 10),
    (shared, "LEASE", timedelta(seconds=2)),
    (beginning, "SLICE", 2),
)
"""Bounds of the engine at which something happens, so low that a short run reaches them."""


CONSEQUENCES = ("evicted", "touched again", "fenced", "late bytes land", "late bytes refused", "late call refused")


class Outcome(NamedTuple):
    """`findings` is empty when every promise held; `hits` counts the faults that came true, `met` those by
    state."""

    plan: Plan
    findings: tuple[str, ...]
    hits: Counter[str]
    overlaps: int
    digest: str
    trace: Sequence[str]
    met: Met

    @property
    def faults(self) -> int:
        return sum(times for name, times in self.hits.items() if name not in CONSEQUENCES)

    @property
    def weak(self) -> str:
        """Why this seed proves too little; empty when it does not."""
        if len(self.plan.records) < 500 or self.plan.workers < 2:
            return "too few records or workers"
        if self.faults < 20 or not self.overlaps:
            return f"{self.faults} faults, {self.overlaps} overlaps"
        return ""


@contextmanager
def silent() -> Iterator[None]:
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    try:
        yield
    finally:
        structlog.configure(**before)


@contextmanager
def small() -> Iterator[None]:
    """The engine with low bounds, and silent."""
    with silent(), pytest.MonkeyPatch.context() as patch:
        for module, name, value in SMALL:
            patch.setattr(module, name, value)
        yield


def told(outcome: Outcome) -> str:
    """A seed in a line."""
    plan, verdict = outcome.plan, "fails" if outcome.findings else "holds"
    what = f"{plan.kind}, {plan.workers} workers, {plan.partitions} partitions, {len(plan.records)} records"
    alone = f"python -m tests.simulation --seed {plan.seed}"
    return f"seed {plan.seed} ({what}, {outcome.faults} faults, {outcome.overlaps} overlaps) {verdict}; alone: {alone}"


def run(which: Plan | int, keep_trace: bool = False, **how: Any) -> Outcome:
    """One seed, or a plan of one with less in it."""
    chosen = plan(which, **how) if isinstance(which, int) else which
    with small():
        world = World(chosen, keep_trace).run()
        findings = tuple(judge(world))
        return Outcome(chosen, findings, world.hits, world.overlaps, world.digest(), world.trace or (), world.met)
