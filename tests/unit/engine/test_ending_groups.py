"""Open groups that cannot go on under another file end in bounded commits, under the rule that filled them."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from msgspec.structs import replace

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Reducer
from sluicegate.streams.aggregation.durable.entry import unpacked
from sluicegate.streams.contracts.values import Changes, Claim
from sluicegate.streams.ownership import beginning
from sluicegate.streams.ownership.claiming.takeover import Takeover
from tests.unit.engine.driver import Driver, Log, ManualClock
from tests.unit.engine.scene import Killed, an_agent, totals

KEYS = "abcde"
PRICES = {"compute": (Reducer("total", "sum", "price"),)}
"""Its states look as those of the other rule, which sums the amounts."""


def give(log: Log, keys: str, number: int = 0) -> None:
    """A record for each: its amount is 1, its price 100."""
    for key in keys:
        log.append("in", number, key.encode(), json.dumps({"amount": 1, "price": 100}).encode())


def commits(store: MemoryStore, monkeypatch: pytest.MonkeyPatch, then: Callable[[int], object]) -> list[Changes]:
    """All commits from now on; `then` is called with the number of each, from 1, after it landed."""
    made: list[Changes] = []
    commit = store.commit

    def watched(claim: Claim, changes: Changes) -> Claim:
        after = commit(claim, changes)
        made.append(changes)
        then(len(made))
        return after

    monkeypatch.setattr(store, "commit", watched)
    return made


def killed(log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, at: int) -> Driver:
    """Five open groups add up amounts, and one more record of each key comes. The next process adds up prices; it is
    killed after its commit number `at`."""
    give(log, KEYS)
    Driver(an_agent(), store, log, clock).give(0).turns()
    give(log, KEYS)
    monkeypatch.setattr(beginning, "SLICE", 2)

    def kill(number: int) -> None:
        if number == at:
            raise Killed

    with monkeypatch.context() as patch:
        commits(store, patch, kill)
        driver = Driver(an_agent(**PRICES), store, log, clock, "flush").give(0)
        with suppress(Killed):
            driver.turns().later(60).turns()
    return driver


def ended(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, at: int
) -> list[tuple[str, str, int, Any]]:
    """What comes out when another process with the new file goes on."""
    killed(log, store, clock, monkeypatch, at)
    Driver(an_agent(**PRICES), store, log, clock, "flush").give(0).turns().later(60).turns()
    return sorted(totals(log))


OLD = [(key, "manual", 1, 1) for key in KEYS]
NEW = [(key, "timeout", 1, 100) for key in KEYS]


@pytest.mark.parametrize("at", range(1, 9))
def test_whichever_commit_a_process_is_killed_at_no_group_goes_on_under_another_rule(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    assert ended(log, store, clock, monkeypatch, at) == sorted(OLD + NEW)


def test_when_the_row_does_not_name_the_older_groups_they_are_lost(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = Takeover._begin

    def early(self: Takeover) -> None:
        begin(self)
        assert self.owner.source is not None
        self.owner.source = replace(self.owner.source, older=())

    monkeypatch.setattr(Takeover, "_begin", early)
    assert ended(log, store, clock, monkeypatch, 1) != sorted(OLD + NEW)


@pytest.mark.parametrize("at", [1, 2])
def test_what_was_decided_goes_on_when_flush_is_not_given_again(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    killed(log, store, clock, monkeypatch, at)
    Driver(an_agent(**PRICES), store, log, clock).give(0).turns().later(60).turns()
    assert sorted(totals(log)) == sorted(OLD + NEW)


def test_the_file_that_filled_them_does_not_take_the_others_back(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(log, store, clock, monkeypatch, 2)
    Driver(an_agent(), store, log, clock).give(0).turns().later(60).turns()
    again = [(key, "timeout", 1, 1) for key in KEYS]
    assert sorted(totals(log)) == sorted(OLD + again)


def most_at_once(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, choice: str, **rule: Any
) -> int:
    """How many groups one commit ends while a file like this takes over five groups of two records."""
    give(log, KEYS * 2)
    Driver(an_agent(), store, log, clock).give(0).turns()
    made = commits(store, monkeypatch, lambda number: None)
    Driver(an_agent(**rule), store, log, clock, choice).give(0).turns()
    entries = [[unpacked(entry) for entry in changes.entries] for changes in made]
    ends = [sum(state is None for entry in some for state in entry.states.values()) for some in entries]
    assert sum(ends) == 5
    return max(ends)


CHOICES: list[tuple[str, dict[str, Any]]] = [("flush", PRICES), ("drop", PRICES), ("refuse", {"count": 2})]


@pytest.mark.parametrize(("choice", "rule"), CHOICES)
def test_one_commit_ends_a_bounded_number_of_groups(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, choice: str, rule: dict[str, Any]
) -> None:
    monkeypatch.setattr(beginning, "SLICE", 2)
    assert most_at_once(log, store, clock, monkeypatch, choice, **rule) == 2


def test_without_slices_all_groups_end_in_one_commit(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beginning, "SLICE", 1_000_000)
    assert most_at_once(log, store, clock, monkeypatch, "flush", **PRICES) == 5


def test_results_of_one_commit_are_bounded_in_bytes_as_well(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = (Reducer("all", "collect"),)
    give(log, KEYS)
    Driver(an_agent(compute=kept), store, log, clock).give(0).turns()
    monkeypatch.setattr(beginning, "SLICE_BYTES", 40)
    made = commits(store, monkeypatch, lambda number: None)
    Driver(an_agent(**PRICES), store, log, clock, "flush").give(0).turns()
    assert [len(changes.outbox) for changes in made if changes.outbox] == [2, 2, 1]


def order(log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Keys of the results in the order of their commits. A commit takes 0.3 s; partition 0 has groups to end, and a
    record comes for partition 1."""
    log.create("in", 2)
    give(log, KEYS)
    Driver(an_agent(), store, log, clock).give(0).turns()
    monkeypatch.setattr(beginning, "SLICE", 1)
    driver = Driver(an_agent(count=1, **PRICES), store, log, clock, "flush").give(1).turns()
    made = commits(store, monkeypatch, lambda number: setattr(clock, "now", clock.now + 0.3))
    driver.give(0).turns(2)
    give(log, "z", number=1)
    give(log, "a")
    driver.turns(20)
    return [(row.key or b"").decode() for changes in made for row in changes.outbox]


def test_other_partitions_are_read_while_groups_end_and_this_one_is_not(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = order(log, store, clock, monkeypatch)
    assert sorted(keys) == sorted([*KEYS, "a", "z"])
    assert keys[-1] == "a"
    assert keys.index("z") < keys.index("e")
