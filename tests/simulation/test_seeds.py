"""`make test` runs a hundred seeds and twenty swarms, the same every day. The rest adds 340 seeds and 80 swarms of the
day, all of which held when they were run last. `make simulate` tries new seeds, and so does SLUICEGATE_SEED, which
replaces the first seed of the day.
"""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.selection import today
from tests.simulation.apps import KINDS
from tests.simulation.coverage import BETWEEN, Met, never, table
from tests.simulation.plan import Fault, Plan, plan, swarm
from tests.simulation.run import run, told
from tests.simulation.shrink import shrunk

CORE_SHARDS, CORE_EACH = 4, 25
SHARDS, EACH = 10, 34
HELD = 10_200
"""The seeds below this number held when they were run last. The seeds of a day are 340 of them."""
BLOCK = SHARDS * EACH
FIRST = int(os.environ.get("SLUICEGATE_SEED") or today() % (HELD // BLOCK) * BLOCK)
SWARMS, SWARMS_HELD = 80, 6_320
PROJECT = Path(__file__).resolve().parents[2]


def all_hold(seeds: range) -> None:
    hits: Counter[str] = Counter()
    failed = []
    for seed in seeds:
        outcome = run(seed)
        hits += outcome.hits
        if outcome.findings or outcome.weak:
            failed.append(f"{told(outcome)}\n  {outcome.weak} " + "\n  ".join(outcome.findings[:3]))
    print(f"seeds {seeds[0]} to {seeds[-1]}: {dict(hits.most_common())}")
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize("shard", range(CORE_SHARDS))
def test_every_promise_holds_under_the_faults_of_a_seed(shard: int) -> None:
    all_hold(range(shard * CORE_EACH, (shard + 1) * CORE_EACH))


@pytest.mark.parametrize("shard", range(SHARDS))
def test_the_seeds_of_the_day_hold(shard: int) -> None:
    all_hold(range(FIRST + shard * EACH, FIRST + (shard + 1) * EACH))


def swarms_hold(seeds: range) -> None:
    met: Met = Counter()
    for seed in seeds:
        outcome = run(swarm(seed))
        met += outcome.met
        assert not outcome.findings, f"python -m tests.simulation --swarm --seed {seed}: {outcome.findings[:3]}"
    assert sum(times for (fault, _), times in met.items() if fault == "stale") > len(seeds) // 2, met


def test_every_promise_holds_where_kinds_of_faults_are_left_out() -> None:
    swarms_hold(range(20))


def test_a_window_that_waits_for_silence_is_waited_for() -> None:
    """Kafka was away until the end of the faults."""
    assert run(swarm(717)).findings == ()


def test_marks_of_several_partitions_do_not_keep_a_run_from_its_end() -> None:
    """Each of four partitions writes a mark every second: at most times one is on its way."""
    assert run(swarm(732)).findings == ()


def test_a_correlation_waits_for_the_records_that_the_broker_named_at_the_claim() -> None:
    """The broker named an end that was too low."""
    assert run(swarm(2762)).findings == ()


def test_an_innocent_group_of_a_shared_buffer_is_given_up_after_three_runs_whose_end_the_store_did_not_hear() -> None:
    """One process stalled, one was killed, and of one the call returned while the store did not answer until its lease
    had ended."""
    assert run(swarm(3622)).findings == ()


@pytest.mark.timeout(60)
def test_items_that_become_ready_while_the_store_answers_are_handled_at_the_next_commit() -> None:
    """The next commit had the time before the answer. So the items waited, and empty commits were repeated."""
    assert run(656).findings == ()


def test_a_store_that_went_back_behind_a_claim_has_the_owner_before_it() -> None:
    """The claim had committed nothing, so no version was lost."""
    assert run(swarm(6115)).findings == ()


def test_the_record_that_ended_three_processes_is_found_behind_records_that_are_read_again() -> None:
    """Seventeen records before the offset of the claim came first, and the record became no dead letter. A later one
    did."""
    assert run(swarm(6110)).findings == ()


def test_the_swarms_of_the_day_hold() -> None:
    first = today() % (SWARMS_HELD // SWARMS) * SWARMS
    swarms_hold(range(first, first + SWARMS))


def test_a_swarm_leaves_out_kinds_of_faults_and_keeps_the_seed_of_others() -> None:
    kinds = [{fault.kind for fault in swarm(seed).faults} for seed in range(40)]
    assert any("kill" not in names for names in kinds)
    assert any("kill" in names for names in kinds)
    assert swarm(7) == swarm(7)
    assert not any(fault.kind == "stale" for seed in range(40) for fault in plan(seed).faults)


def test_the_coverage_names_what_no_seed_has_met() -> None:
    met: Met = Counter()
    for seed in range(8):
        met += run(swarm(seed)).met
    missed = never(met)
    assert all(f"{fault} x {state}" not in missed for fault, state in met)
    assert "kill x halted" in missed
    assert {state for fault, state in met if fault in BETWEEN} >= {"none", "waiting", "unsent", "pending"}
    assert f"| `kill` | {met['kill', 'none']:,} |" in table(met)


with_faults_of_its_own = pytest.mark.parametrize(
    ("kind", "seeds", "least"),
    [
        # rows refused for good are kept, those of a topic that is away wait
        ("refused", 20, {"rejected": 20, "denied": 20}),
        ("gaps", 8, {"gap": 20}),  # a row that failed alone comes after later ones and is taken
        ("shared", 12, {"shared reply lost": 5, "late call lands": 5}),  # each record of a shared buffer counts once
        # no group of a shared buffer ends before the deadline of its records, or waits behind it
        ("shared due", 12, {"shared reply lost": 5, "late call lands": 5}),
        # each early result of a group of a shared buffer once, numbered without a gap, whoever makes it
        ("shared early", 24, {"shared reply lost": 5, "late call lands": 5}),
        ("changed", 60, {"file": 600}),  # each group is ended by the rule that filled it, whoever has which file when
        # each record is in one result of one rule, whoever has heard of which version when
        ("deployed", 24, {"deploy-rewind": 30, "deploy-finish": 15, "deploy-flush": 15}),
        # each window has one result, of one rule, also where a record is in windows of two rules
        ("windows deployed", 24, {"deploy-finish": 40, "deploy-convert": 10}),
        ("calendar deployed", 12, {"deploy-finish": 20, "deploy-convert": 5}),  # days of 23 hours among them
        # sessions of two rules are not joined, and an open one gets the records that touch it
        ("sessions deployed", 12, {"deploy-finish": 30}),
        ("expression", 8, {"kill-at": 10}),  # a record that `until` cannot answer is a dead letter and in no group
        # what ends its process is a dead letter, and nothing else is
        ("killer", 12, {"shared reply lost": 5, "late call lands": 5}),
        ("routed", 24, {"kill-at": 20, "fenced": 20}),  # `where`, `having` and two routes
        ("forwarded", 24, {"kill-at": 20, "fenced": 20}),  # each record goes to its routes, once and unchanged
        ("windows", 24, {"kill-at": 20, "fenced": 20}),  # the same windows close and the same records are late
        ("origins", 12, {"kill-at": 10, "fenced": 10}),  # windows over a re-keyed topic, by its marks
        ("silence", 12, {"kafka-away": 60}),  # no record is late that was written in time
        ("legs", 12, {"kill-at": 10, "fenced": 10}),  # no leg is absent while a record of it waits to be read
        ("correlated", 24, {"kill-at": 20, "fenced": 20}),  # a key ends once, and nothing that waits is called absent
        ("early", 24, {"kill-at": 20, "fenced": 20}),  # each early result once, numbered without a gap
        ("deadlines", 24, {"kill-at": 20, "fenced": 20}),  # no deadline of the data is missed, or early
    ],
    ids=[
        "refused",
        "gaps",
        "shared",
        "shared-due",
        "shared-early",
        "changed",
        "deployed",
        "windows-deployed",
        "calendar-deployed",
        "sessions-deployed",
        "expression",
        "killer",
        "routed",
        "forwarded",
        "windows",
        "origins",
        "silence",
        "legs",
        "correlated",
        "early",
        "deadlines",
    ],
)


@with_faults_of_its_own
def test_every_promise_holds_where_a_kind_has_faults_of_its_own(kind: str, seeds: int, least: dict[str, int]) -> None:
    kind_holds(kind, range(seeds), least)


@with_faults_of_its_own
def test_the_seeds_of_the_day_hold_for_a_kind(kind: str, seeds: int, least: dict[str, int]) -> None:
    kind_holds(kind, range(FIRST, FIRST + seeds), least)


def kind_holds(kind: str, seeds: range, least: dict[str, int]) -> None:
    hits: Counter[str] = Counter()
    for seed in seeds:
        outcome = run(seed, kind=kind)
        hits += outcome.hits
        assert not outcome.findings, f"{seed}: {outcome.findings[:3]}"
    assert all(hits[name] > times for name, times in least.items()), hits


def test_the_same_seed_does_the_same_in_another_process_with_another_hash_seed() -> None:
    here = run(KINDS.index("reducers")).digest
    assert run(KINDS.index("reducers")).digest == here
    command = [sys.executable, "-m", "tests.simulation", "--digest", "--seed", str(KINDS.index("reducers"))]
    there = subprocess.run(
        command, cwd=PROJECT, env=os.environ | {"PYTHONHASHSEED": "7"}, capture_output=True, text=True, timeout=120
    )
    assert there.stdout.strip() == here, there.stderr


def test_another_seed_does_something_else() -> None:
    assert run(1, kind="count").digest != run(2, kind="count").digest


def test_a_smaller_plan_is_found_that_still_fails() -> None:
    whole = plan(3, kind="count")
    cause = whole.faults[17]

    def fails(smaller: Plan) -> bool:
        return cause in smaller.faults and any(entry.key == b"c" for entry in smaller.records)

    small = shrunk(whole, fails)
    assert small.faults == (cause,)
    assert len(small.records) <= 8
    assert run(small).plan == small


def test_a_plan_without_faults_is_held_to_be_weak() -> None:
    quiet = plan(5, kind="timed")._replace(faults=())
    outcome = run(quiet)
    assert outcome.findings == ()
    assert outcome.weak
    assert run(quiet._replace(faults=(Fault(10, "kill"),))).faults == 1
