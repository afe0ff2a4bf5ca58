"""A rule that changes while records come and processes are killed: each record is in exactly one result of one rule."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Aggregation, Reducer
from sluicegate.streams.aggregation.durable import changelog
from sluicegate.streams.aggregation.durable.entry import CHECKED, GENERATION
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.values import Claim, Partition, Source
from sluicegate.streams.ownership import checks, generations, rereading, switching
from sluicegate.streams.ownership.claiming import takeover
from sluicegate.streams.ownership.claiming.takeover import Takeover
from sluicegate.streams.ownership.generations import Generations, Older
from sluicegate.streams.ownership.switching import Switch
from sluicegate.streams.rules import rule_of
from sluicegate.streams.rules.versions import Deployed
from tests.unit.engine.deployments import RewindRun, deployed, failing
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct, header
from tests.unit.engine.scene import an_agent, dead, feed, shown, totals

PLACE = Partition("app", "sums", "in", 0)
Patch = pytest.MonkeyPatch


def test_each_record_is_in_one_result_of_one_rule() -> None:
    assert failing(range(150)) == {}


def test_each_record_is_in_one_result_while_records_are_read_again() -> None:
    assert failing(range(100), RewindRun) == {}


def untagged(patch: Patch) -> None:
    """An entry is applied to the newest generation, whoever's groups it has."""
    unpacked = changelog.unpacked
    patch.setattr(changelog, "unpacked", lambda blob: msgspec.structs.replace(unpacked(blob), generation=0))


def not_named(patch: Patch) -> None:
    """The row does not name the older generations."""
    begin = Takeover._begin

    def forgetful(self: Takeover) -> None:
        begin(self)
        self.owner.source = self.owner.source and msgspec.structs.replace(self.owner.source, older=())

    patch.setattr(Takeover, "_begin", forgetful)


def taken_over(patch: Patch) -> None:
    """The groups go on under a rule with another layout."""
    patch.setattr(takeover, "judged", lambda before, *_: Switch((), None, before.generation if before else 0))


def decided_again(patch: Patch) -> None:
    """A conversion that a crash cut short converts to whatever rule comes next."""
    patch.setattr(switching, "policy_of", lambda policies: policies[0])


def forgotten_early(patch: Patch) -> None:
    """A generation is taken off the row while it has open groups."""

    def noted(self: Generations, source: Any) -> Any:
        return source and msgspec.structs.replace(source, older=())

    patch.setattr(Generations, "noted", noted)


def under_the_new_rule(patch: Patch) -> None:
    """What finishes is computed and sent as the new rule says."""
    patch.setattr(generations, "ruled", lambda known, file: file)


def repeated(patch: Patch) -> None:
    """All records below the offset of the change count again."""
    patch.setattr(Generations, "select_reread", lambda self, records: records)


def read_again_unseen(patch: Patch) -> None:
    """The entry of a commit does not say which records were read again."""
    took = rereading._took

    def unsaid(groups: Groups, rule: Rule, record: Record) -> bool:
        before = dict(groups.touched)
        log_record = took(groups, rule, record)
        groups.touched = before
        return log_record

    patch.setattr(rereading, "_took", unsaid)


def back_in_memory(patch: Patch) -> None:
    """The commit that changes the version keeps the offset, and the worker goes back only in memory."""
    wrote = Takeover._commit_source

    def kept(self: Takeover, before: Source | None) -> None:
        intake, offset = self.owner.intake, self.owner.intake.offset
        intake.offset = max(offset, self.owner.claim.offset)
        wrote(self, before)
        intake.offset = offset

    patch.setattr(Takeover, "_commit_source", kept)


def left_early(patch: Patch) -> None:
    """A generation ends with its last group, below the offset of the change."""
    patch.setattr(Older, "ended", lambda self, offset: not self.groups.states and not self.groups.events)


def told_too_much(patch: Patch) -> None:
    """A row whose offset is below the one that Kafka was told has lost writes."""
    patch.setattr(checks, "_reached", lambda claim: claim.offset)


def unfiltered_after_a_drop(patch: Patch) -> None:
    """The records below the offset of the change count again when the groups that wait are dropped."""
    again = Generations.select_reread

    def filtered(self: Generations, records: Sequence[Record]) -> Sequence[Record]:
        waits = any(part.known.policy == "rewind" for part in self)
        return again(self, records) if waits else records

    patch.setattr(Generations, "select_reread", filtered)


def fires_what_waits(patch: Patch) -> None:
    """A deployment that fires groups fires those that wait to be read again, too."""
    decided = switching.policy_of
    patch.setattr(switching, "policy_of", lambda names: "flush" if names[-1] == "flush" else decided(names))


def forgotten_at_the_switch(patch: Patch) -> None:
    """The partition goes back, and does not keep the groups that wait."""
    begin = Generations.begin

    def forgetful(self: Generations, claim: Claim, name: str) -> int:
        offset = begin(self, claim, name)
        for part in self:
            if part.known.policy == "rewind":
                for key in list(part.groups.states):
                    part.groups.drop(key)
        return offset

    patch.setattr(Generations, "begin", forgetful)


REWINDS = (
    repeated,
    read_again_unseen,
    back_in_memory,
    left_early,
    told_too_much,
    unfiltered_after_a_drop,
    fires_what_waits,
    forgotten_at_the_switch,
)
MUTANTS = (untagged, not_named, taken_over, forgotten_early, under_the_new_rule)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_mutant_is_found(monkeypatch: Patch, mutant: Callable[[Patch], None]) -> None:
    mutant(monkeypatch)
    assert failing(range(80))


@pytest.mark.parametrize("mutant", REWINDS, ids=lambda mutant: mutant.__name__)
def test_a_mutant_of_reading_again_is_found(monkeypatch: Patch, mutant: Callable[[Patch], None]) -> None:
    mutant(monkeypatch)
    assert any(failing([seed], RewindRun) for seed in range(80))


def test_without_the_policy_of_the_first_deployment_a_conversion_that_was_cut_short_is_lost(monkeypatch: Patch) -> None:
    assert failing([1439, 1787]) == {}
    decided_again(monkeypatch)
    assert failing([1439, 1787])


# -- one partition, step by step ---------------------------------------------------------------------------------------

MOST = (Reducer("total", "max", "amount"),)
V1, V2 = an_agent(count=3), an_agent(count=2, compute=MOST)


def started(log: Log, store: MemoryStore, clock: ManualClock, policy: str) -> Driver:
    """Group a has two records and b one when version 2 is deployed."""
    feed(log, ("a", 1), ("a", 2), ("b", 5))
    Driver(V1, store, log, clock, deployed=deployed((V1, "refuse"))).give(0).turns()
    return Driver(V2, store, log, clock, deployed=deployed((V1, "refuse"), (V2, policy))).give(0).turns()


def test_a_group_that_finishes_takes_the_records_of_its_key(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    driver = started(log, store, clock, "finish")
    assert totals(log) == []
    feed(log, ("a", 7), ("a", 8), ("c", 1), ("c", 9), ("a", 3))
    driver.turns()
    assert sorted(totals(log)) == [("a", "count", 2, 8), ("a", "count", 3, 10), ("c", "count", 2, 9)]
    rules = {header(message, "sluicegate-rule") for message in distinct(log, "out")}
    assert rules == {rule_of(V1).short, rule_of(V2).short}
    driver.later(31).turns()
    assert ("b", "timeout", 1, 5) in totals(log)
    assert source(store).older == ()


def source(store: MemoryStore) -> Any:
    view = store.read(PLACE)
    assert view is not None
    return view.claim.source


def test_twin_a_record_that_goes_to_the_newest_generation_splits_the_group(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(Generations, "take", lambda self, records, *_: [(records, None)])
    driver = started(log, store, clock, "finish")
    feed(log, ("a", 7), ("a", 8))
    driver.turns()
    assert totals(log) == [("a", "count", 2, 8)]


def test_what_finishes_outlives_a_kill(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    started(log, store, clock, "finish")
    assert [rule.policy for rule in source(store).older] == ["finish"]
    both = deployed((V1, "refuse"), (V2, "finish"))
    driver = Driver(V2, store, log, clock, deployed=both).give(0).turns()
    feed(log, ("a", 7))
    driver.turns()
    assert totals(log) == [("a", "count", 3, 10)]


def test_flushed_groups_name_the_rule_that_filled_them(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    started(log, store, clock, "flush")
    assert totals(log) == [("a", "manual", 2, 3), ("b", "manual", 1, 5)]
    assert {header(message, "sluicegate-rule") for message in distinct(log, "out")} == {rule_of(V1).short}


def test_converted_groups_go_on_with_what_they_hold(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    driver = started(log, store, clock, "convert")
    assert totals(log) == [("a", "count", 2, 2)]  # the greatest amount was held beside the sum
    feed(log, ("b", 4))
    driver.turns()
    assert totals(log)[1:] == [("b", "count", 2, 5)]
    assert source(store).older == ()


def test_a_worker_with_an_earlier_version_does_not_take_the_partition(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    started(log, store, clock, "finish")
    behind = Driver(V1, store, log, clock, deployed=deployed((V1, "refuse"))).give(0)
    feed(log, ("a", 7), ("c", 1))
    behind.turns()
    assert totals(log) == []
    [report] = behind.reports[-1:]
    assert "is at version 2 of the rule, this worker at 1" in " ".join(report.reasons)


def test_twin_a_worker_that_goes_by_its_file_flips_the_version(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: Patch
) -> None:
    started(log, store, clock, "flush")
    monkeypatch.setattr(Deployed, "number", property(lambda self: 2))
    feed(log, ("c", 1), ("c", 2), ("c", 3))
    Driver(V1, store, log, clock, "flush", deployed=deployed((V1, "refuse"))).give(0).turns()
    assert ("c", "count", 3, 6) in totals(log)


def test_versions_that_a_partition_never_saw_are_skipped(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    """The groups of version 1 finish: the deployment of version 2 said so."""
    feed(log, ("a", 1), ("a", 2))
    Driver(V1, store, log, clock, deployed=deployed((V1, "refuse"))).give(0).turns()
    V3 = replace(V2, aggregation=replace(V2.aggregation or Aggregation(), count=5))
    every = deployed((V1, "refuse"), (V2, "finish"), (V3, "convert"))
    driver = Driver(V3, store, log, clock, deployed=every).give(0).turns()
    feed(log, ("a", 3))
    driver.turns()
    assert totals(log) == [("a", "count", 3, 6)]
    assert source(store).version == 3


def test_an_entry_of_a_later_generation_stops_an_older_program(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    driver = started(log, store, clock, "finish")
    feed(log, ("c", 1))
    driver.turns()
    view = store.read(PLACE)
    assert view is not None
    assert [entry[:1] + entry[5:6] for entry in view.entries][-1] == CHECKED + GENERATION


def test_a_partition_without_open_groups_has_one_generation(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    Driver(V1, store, log, clock, deployed=deployed((V1, "refuse"))).give(0).turns()
    Driver(V2, store, log, clock, deployed=deployed((V1, "refuse"), (V2, "finish"))).give(0).turns()
    output = source(store)
    assert (output.version, output.generation, output.older) == (2, 0, ())


def bounded(log: Log, store: MemoryStore, clock: ManualClock, **limits: Any) -> Driver:
    """Groups a and b finish under version 1, which permits as much as version 2."""
    items = (Reducer("items", "collect", "amount"),)
    old, new = an_agent(count=8, compute=items, **limits), an_agent(count=9, compute=items, **limits)
    feed(log, ("a", "." * 40), ("b", "." * 40))
    Driver(old, store, log, clock, deployed=deployed((old, "refuse"))).give(0).turns()
    both = deployed((old, "refuse"), (new, "finish"))
    Driver(new, store, log, clock, deployed=both).give(0).turns()
    return Driver(new, store, log, clock, deployed=both).give(0).turns()  # also after another claim


LIMITS = {"max_groups": 3, "max_buffered_bytes": 140}


@pytest.mark.parametrize("name", LIMITS)
def test_limits_hold_for_all_versions_together(name: str, log: Log, store: MemoryStore, clock: ManualClock) -> None:
    driver = bounded(log, store, clock, **{name: LIMITS[name]})
    for key, ended in (("c", 0), ("d", 1), ("e", 2), ("f", 3)):
        feed(log, (key, "." * 40))
        driver.turns()
        assert [total[0] for total in totals(log)] == ["a", "b", "c"][:ended]
    assert {total[1] for total in totals(log)} == {"limit"}
    rules = [header(message, "sluicegate-rule") for message in distinct(log, "out")]
    assert rules[0] == rules[1] != rules[2]


@pytest.mark.parametrize("name", LIMITS)
def test_twin_a_version_that_counts_by_itself_holds_more(
    name: str, log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(Generations, "finish_beside", lambda self, newest: None)
    driver = bounded(log, store, clock, **{name: LIMITS[name]})
    feed(log, ("c", "." * 40), ("d", "." * 40))
    driver.turns()
    assert totals(log) == []


@pytest.mark.parametrize("policy", ["dead-letter", "stop"])
def test_a_limit_of_all_versions_together_refuses_as_on_full_says(
    policy: str, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    driver = bounded(log, store, clock, max_groups=3, on_full=policy)
    feed(log, ("c", 1), ("d", 1))
    driver.turns()
    assert totals(log) == []
    if policy == "dead-letter":
        assert [reason for _, reason in dead(log)] == ["limit"]
    else:
        assert shown(driver)[0] == ["halted in/0: buffer-full"]
