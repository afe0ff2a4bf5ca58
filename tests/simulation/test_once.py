"""A worker that lives, alone, with a broker that answers: whatever else goes wrong, each row is written once."""

from collections import Counter

import pytest

from sluicegate.streams.engine.worker import Worker
from sluicegate.streams.outbox.relay import Shard
from tests.simulation.apps import KINDS
from tests.simulation.judge import copies, judge
from tests.simulation.plan import Plan, plan
from tests.simulation.run import small
from tests.simulation.world import World

CALM = {"outage", "redeliver", "ahead", "slow-reports", "queue-full", "store-clock", "clock", "late", "twice"}
"""Faults that end no process, move no partition and fail no delivery. A commit that is late or lost is heard of by the
next claim."""
PLAIN = tuple(kind for kind in KINDS if kind != "poison")  # the record of that kind ends its process
SEEDS = 6


def calm(seed: int, kind: str) -> Plan:
    """The plan of the seed with one worker, and with its calm faults alone, more of them."""
    scenario = plan(seed, kind=kind)
    faults = [fault for fault in scenario.faults if fault.kind in CALM]
    more = [fault._replace(step=(fault.step + 131) % 380) for fault in faults]
    return scenario._replace(workers=1, faults=tuple(sorted([*faults, *more])))


HANDED_OVER = {"rebalance", "stop", "redeliver", "ahead", "slow-reports", "queue-full", "store-clock", "clock"}
"""Faults after which partitions go from worker to worker, and that neither end a claim nor fail a delivery."""


def moving(seed: int, kind: str) -> Plan:
    """The plan of the seed with workers that hand partitions over, in groups that wait for them."""
    scenario = plan(seed, kind=kind)
    faults = [fault for fault in scenario.faults if fault.kind in HANDED_OVER]
    more = [fault._replace(step=(fault.step + 131) % 380) for fault in faults]
    return scenario._replace(cooperative=True, faults=tuple(sorted([*faults, *more])))


class Handing(World):
    """No process stands still while another one claims what it has."""

    def _overlap(self) -> None:
        pass


def lived(which: Plan, kind: type[World] = World) -> tuple[list[str], Counter[str]]:
    with small():
        world = kind(which).run()
        return [*judge(world), *copies(world)], world.hits


@pytest.mark.parametrize("kind", PLAIN)
def test_no_seed_writes_a_row_twice_while_its_worker_lives(kind: str) -> None:
    hits: Counter[str] = Counter()
    for seed in range(SEEDS):
        problems, happened = lived(calm(seed, kind))
        hits += happened
        assert not problems, f"{seed}: {problems[:3]}"
    assert hits["outage"] >= SEEDS, hits


@pytest.mark.parametrize("kind", PLAIN)
def test_no_seed_writes_a_row_twice_while_workers_hand_partitions_over(kind: str) -> None:
    hits: Counter[str] = Counter()
    for seed in range(SEEDS):
        problems, happened = lived(moving(seed, kind), Handing)
        hits += happened
        assert not problems, f"{seed}: {problems[:3]}"
    assert hits["rebalance"] >= SEEDS, hits


def test_without_the_reports_before_a_revocation_rows_are_written_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Worker, "_finish", lambda self, places: None)
    assert any("written" in line for seed in range(SEEDS) for line in lived(moving(seed, "count"), Handing)[0])


def test_without_what_the_relay_remembers_rows_are_written_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Shard, "follow", lambda self, last: None)
    assert any("written" in line for seed in range(SEEDS) for line in lived(calm(seed, "count"))[0])
