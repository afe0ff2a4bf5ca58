"""What a worker says of itself while it cannot work: in health, and in the log."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.contracts.values import Changes, Claim, Level
from sluicegate.streams.errors import PersistenceError, SluicegateError
from sluicegate.streams.ownership.claims import NOT_JOINED
from sluicegate.streams.ownership.last_failures import LastFailures
from sluicegate.streams.ownership.owner import Owner
from tests.unit.engine.driver import Driver, Log, ManualClock
from tests.unit.engine.scene import a_log, an_agent, feed, shown, totals


def test_a_worker_is_not_ready_before_its_group_has_assigned_something_or_nothing(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    driver = Driver(an_agent(), store, log, clock)
    driver.input.member = False
    assert shown(driver.turns())[0] == [NOT_JOINED]
    driver.input.member = True
    assert shown(driver.turns())[0] == []


def test_a_worker_reports_at_once_that_its_partition_is_claimed(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    """The supervisor ends the run when a worker that was never ready ends with 3. It must not wait for the next regular
    report to hear that the worker was ready."""
    driver = Driver(an_agent(), store, log, clock)
    driver.input.member = False
    assert [report.ready for report in driver.turns().reports] == [False]
    driver.input.member = True
    assert [report.ready for report in driver.give(0).turns().reports] == [False, True]


def test_a_partition_that_was_just_assigned_is_not_called_fenced(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    driver = Driver(an_agent(), store, log, clock).give(0)
    driver.worker._claims.follow(clock.now)
    assert shown(driver)[0] == ["waiting to claim in/0: just assigned"]


def test_one_rebalance_is_counted_once_whatever_it_gives(store: MemoryStore, clock: ManualClock) -> None:
    driver = Driver(an_agent(), store, a_log("in", "out", "dead", partitions=3), clock).give(0, 1, 2).turns()
    driver.input.take(("in", 0), ("in", 1))
    driver.turns()
    assert ("rebalances", (), 2) in driver.worker.reports.of(clock.now).metrics


def test_an_outage_of_the_store_stands_in_the_log_once_per_partition(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    claim, driver = store.claim, Driver(an_agent(), store, log, clock)

    def fails(*_args: object) -> None:
        raise PersistenceError("the store is away")

    for _ in range(2):
        store.claim = fails  # type: ignore[assignment]
        with capture_logs() as logs:
            driver.give(0)
            for _ in range(50):
                driver.later(0.5).turns(1)
        lines = [line for line in logs if line["event"] == "partition.unavailable"]
        assert [line["log_level"] for line in lines] == ["warning"] + ["debug"] * (len(lines) - 1)
        assert len(lines) > 5
        store.claim = claim  # type: ignore[method-assign]
        driver.later(5).turns()


def test_partitions_that_were_added_are_said_with_what_becomes_of_open_groups(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    feed(log, ("k", 1))
    Driver(an_agent(), store, log, clock).give(0).turns()
    log.topics["in"].append([])
    feed(log, ("k", 2))
    with capture_logs() as logs:
        Driver(an_agent(), store, log, clock).give(0).turns()
    [log_line] = [line for line in logs if line["event"] == "topic.partitions_added"]
    assert (log_line["topic"], log_line["partitions"], log_line["log_level"]) == ("in", 2, "warning")
    with capture_logs() as logs:
        Driver(an_agent(), store, log, clock).give(0).turns()
    assert not [line for line in logs if line["event"] == "topic.partitions_added"]


def test_an_idle_worker_is_not_ready_while_the_store_does_not_answer(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    driver, level = Driver(an_agent(), store, log, clock).give(0).turns(), store.level

    def fails() -> Level:
        raise PersistenceError("the store is away")

    store.level = fails  # type: ignore[method-assign]
    assert shown(driver.later(6).turns())[0] == ["the store does not answer: the store is away"]
    store.level = level  # type: ignore[method-assign]
    assert shown(driver.later(6).turns())[0] == []


def test_what_the_file_leaves_out_without_a_dead_letter_is_counted(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    agent = an_agent(on_missing="skip", on_null="skip", on_timeout="discard", count=None)
    log.append("in", 0, b"k", None)
    log.append("in", 0, b"k", b"{}")
    feed(log, ("k", 1))
    driver = Driver(agent, store, log, clock).give(0).turns()
    driver.later(40).turns()
    metrics = driver.worker.reports.of(clock.now).metrics
    assert {sample for sample in metrics if sample[0] in ("records_skipped", "groups_discarded")} == {
        ("records_skipped", (), 2),
        ("groups_discarded", (), 1),
    }
    assert not log.topics["dead"][0]


def test_how_far_behind_a_partition_is_read_is_the_age_of_its_newest_record(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    feed(log, ("k", 1))
    at = round((clock.now + 1_700_000_000) * 1000)
    log.topics["in"][0][0] = replace(log.topics["in"][0][0], at=at)
    driver = Driver(an_agent(), store, log, clock).give(0).turns()
    [partition] = driver.later(3).worker.reports.of(clock.now).partitions
    assert (partition.read_age, partition.lag_seconds) == (3.0, 0.0)
    feed(log, ("k", 2))
    [partition] = driver.worker.reports.of(clock.now).partitions
    assert (partition.lag, partition.lag_seconds) == (1, 3.0)


def test_a_partition_that_may_not_be_read_is_said_once_and_makes_the_worker_unready_until_records_come(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    driver = Driver(an_agent(), store, log, clock).give(0).turns()
    with capture_logs() as logs:
        for _ in range(5):
            driver.input.failed.append((("in", 0), "unauthorized", "not allowed now"))
            driver.turns(1)
    assert [line["event"] for line in logs] == ["partition.unreadable"]
    assert shown(driver)[0] == ["cannot read in/0: unauthorized"]
    feed(log, ("a", 1))
    assert shown(driver.turns())[0] == []


def test_partitions_added_while_it_runs_are_said_and_every_record_counts_once(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    driver = Driver(an_agent(), store, log, clock).give(0).turns()
    feed(log, ("k", 1), ("k", 1))
    driver.turns(1)
    log.topics["in"].append([])
    feed(log, ("k", 1), ("l", 1))
    with capture_logs() as logs:
        driver.give(1).turns()
    assert [(line["partition"], line["partitions"]) for line in logs if line["event"] == "topic.partitions_added"] == [
        (0, 2)
    ]
    feed(log, ("l", 1), ("l", 1))
    driver.turns()
    assert sorted(totals(log)) == [("k", "count", 3, 3), ("l", "count", 3, 3)]


def test_partitions_added_while_it_runs_halt_what_could_never_end(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    feed(log, ("k", 1))
    driver = Driver(an_agent(since_first=None), store, log, clock).give(0).turns()
    log.topics["in"].append([])
    driver.give(1).turns()
    assert shown(driver) == (
        ["halted in/0: partitions-changed"],
        {("in", 0): ("halted", "partitions-changed"), ("in", 1): ("running", None)},
    )


def test_what_fails_again_after_each_claim_is_shown_at_any_time(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    """A missing table of a lookup, say: claims succeed and commits fail, and the other partition works on."""
    log.topics["in"].append([])
    driver = Driver(an_agent(count=2), store, log, clock).give(0, 1).turns()
    commit, commit_all = store.commit, store.commit_all

    def missing(claim: Claim, changes: Changes) -> Claim:
        if claim.partition.number == 0:
            raise PersistenceError("no such table customers")
        return commit(claim, changes)

    _commits_by(store, missing)
    feed(log, ("k", 1), ("k", 1))
    with capture_logs() as lines:
        for _ in range(60):
            log.append("in", 1, b"k", b'{"amount": 1}')
            driver.later(0.1).turns(1)
            [reason] = shown(driver)[0]
            assert reason.endswith("in/0: no such table customers")
            report = next(
                partition for partition in driver.worker.reports.of(clock.now).partitions if partition.number == 0
            )
            assert (report.error, report.detail) == ("failed", "no such table customers")
    levels = [line["log_level"] for line in lines if line["event"] == "partition.unavailable"]
    assert levels == ["warning"] + ["debug"] * (len(levels) - 1)
    assert len(levels) > 3
    store.commit, store.commit_all = commit, commit_all  # type: ignore[method-assign]
    driver.later(3).turns()
    assert shown(driver) == ([], {("in", 0): ("running", None), ("in", 1): ("running", None)})


def test_an_empty_commit_ends_no_failure_while_work_is_left(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    """A worker makes one for each idle partition, and records may wait to be fetched meanwhile."""
    driver = Driver(an_agent(count=2), store, log, clock).give(0).turns()
    commit = store.commit

    def missing(claim: Claim, changes: Changes) -> Claim:
        if changes.offset > claim.offset:
            raise PersistenceError("no such table customers")
        return commit(claim, changes)

    _commits_by(store, missing)
    feed(log, ("k", 1), ("k", 1))
    with capture_logs() as lines:
        for _ in range(60):
            driver.later(0.1).turns(1)
            for _ in range(2):
                driver.worker._commits.look(clock.now)
            [reason] = shown(driver)[0]
            assert reason.endswith("in/0: no such table customers")
    levels = [line["log_level"] for line in lines if line["event"] == "partition.unavailable"]
    assert levels == ["warning"] + ["debug"] * (len(levels) - 1)


def test_an_empty_commit_ends_a_failure_when_no_work_is_left(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leg of a correlation has work without records: the marks that it writes for each partition."""
    deadline = [float("-inf")]
    monkeypatch.setattr(Owner, "next_due", lambda owner: deadline[0])
    driver = Driver(an_agent(count=2), store, log, clock).give(0).turns()
    commit, commit_all = store.commit, store.commit_all

    def fails(claim: Claim, changes: Changes) -> Claim:
        raise PersistenceError("the store is away")

    _commits_by(store, fails)
    for _ in range(2):
        driver.worker._commits.look(clock.now)
    store.commit, store.commit_all = commit, commit_all  # type: ignore[method-assign]
    driver.later(3).turns()
    assert shown(driver)[0] == ["retrying in/0: the store is away"]
    deadline[0] = float("inf")
    for _ in range(2):
        driver.worker._commits.look(clock.now)
    assert shown(driver)[0] == []


def _commits_by(store: MemoryStore, commit: Callable[[Claim, Changes], Claim]) -> None:
    """Have this function make each commit of the store."""
    store.commit = commit  # type: ignore[method-assign]
    store.commit_all = lambda commits: [_answer(commit, *answer) for answer in commits]  # type: ignore[assignment,method-assign]


def _answer(commit: Callable[[Claim, Changes], Claim], claim: Claim, changes: Changes) -> Claim | SluicegateError:
    try:
        return commit(claim, changes)
    except SluicegateError as error:
        return error


def test_a_commit_whose_answer_was_lost_is_over_with_the_next_claim(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    driver = Driver(an_agent(count=2), store, log, clock).give(0).turns()
    commit_all, commit = store.commit_all, store.commit

    def lost(claim: Claim, changes: Changes) -> Claim:
        commit(claim, changes)
        raise PersistenceError("no answer")

    _commits_by(store, lost)
    feed(log, ("k", 1), ("k", 1))
    driver.turns(2)
    assert shown(driver)[0] == ["waiting to claim in/0: no answer"]
    store.commit, store.commit_all = commit, commit_all  # type: ignore[method-assign]
    driver.later(3).turns()
    assert shown(driver)[0] == []


def test_a_failure_that_does_not_come_again_is_over_after_a_while() -> None:
    failures, place = LastFailures(), ("in", 0)
    failures.note(place, "away", owned=True)
    failures.claimed(place, True, 100.0)
    assert (failures.text(place, 109.0), failures.text(place, 110.0)) == ("away", None)


def test_a_worker_at_the_end_of_a_partition_has_no_lag_although_offsets_without_records_follow(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    feed(log, ("k", 1))
    driver = Driver(an_agent(), store, log, clock).give(0).turns()
    driver.input.high = lambda topic, number: 5  # type: ignore[method-assign]
    driver.input.ended = lambda topic, number: 5  # type: ignore[method-assign]
    [partition] = driver.worker.reports.of(clock.now).partitions
    assert (partition.offset, partition.end, partition.lag, partition.lag_seconds) == (1, 5, 0, 0.0)
    driver.input.high = lambda topic, number: 7  # type: ignore[method-assign]
    [partition] = driver.worker.reports.of(clock.now).partitions
    assert (partition.end, partition.lag) == (5, 2)
    driver.input.ended = lambda topic, number: -1  # type: ignore[method-assign]
    [partition] = driver.worker.reports.of(clock.now).partitions
    assert (partition.end, partition.lag) == (-1, 6)
