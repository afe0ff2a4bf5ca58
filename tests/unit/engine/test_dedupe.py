"""Duplicates of a producer in the real engine: dropped before the aggregation, in the commit that moves the offset."""

import pytest
from structlog.testing import capture_logs

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.schemas import codec
from sluicegate.streams.agent import Deduplication
from sluicegate.streams.aggregation.seen import LONGEST_ID
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.reading.dedupe import IdRule
from tests.mutation.twins import without
from tests.unit.engine.driver import Driver, Log, ManualClock, header
from tests.unit.engine.producing import metrics, sums, twice, write
from tests.unit.engine.scene import a_log, dead, totals, until_killed


def offset(driver: Driver, number: int = 0) -> int:
    return driver.worker._owners["in", number].claim.offset


def test_what_a_producer_writes_twice_counts_once(store: MemoryStore, log: Log, clock: ManualClock) -> None:
    twice(log, "1", "2", "3")
    driver = Driver(sums(), store, log, clock).give(0).turns()
    assert totals(log) == [("a", "count", 3, 3)]
    assert offset(driver) == 6
    assert metrics(driver)["records_duplicate"] == 3
    assert metrics(driver)["records_consumed"] == 6


def test_without_it_duplicates_count_twice(store: MemoryStore, log: Log, clock: ManualClock) -> None:
    twice(log, "1", "2", "3")
    Driver(sums(None), store, log, clock).give(0).turns()
    assert totals(log) == [("a", "count", 3, 3), ("a", "count", 3, 3)]


def test_with_the_protection_taken_out_duplicates_count_twice(store: MemoryStore, log: Log, clock: ManualClock) -> None:
    twice(log, "1", "2", "3")
    with without("dedupe"):
        Driver(sums(), store, log, clock).give(0).turns()
    assert len(totals(log)) == 2


def test_a_duplicate_in_a_later_commit_moves_the_offset_and_sends_nothing(
    store: MemoryStore, log: Log, clock: ManualClock
) -> None:
    for name in "123":
        write(log, name)
    driver = Driver(sums(), store, log, clock).give(0).turns()
    for name in "123":
        write(log, name)
    driver.turns()
    assert (offset(driver), len(log.topics["out"][0]), driver.worker._owners["in", 0].groups.newest.states) == (
        6,
        1,
        {},
    )


def test_unsent_output_of_the_first_is_sent_after_its_duplicate_was_dropped(
    store: MemoryStore, log: Log, clock: ManualClock
) -> None:
    """By another process, even: what is dropped is the record, not the outbox row."""
    write(log, "1")
    driver = Driver(sums(count=1), store, log, clock).give(0)
    driver.producer.fate = lambda row: "failed"
    driver.turns()
    assert log.topics["out"][0] == []
    write(log, "1")
    driver.turns()
    assert (offset(driver), log.topics["out"][0]) == (2, [])
    Driver(sums(count=1), store, log, clock).give(0).turns()
    assert totals(log) == [("a", "count", 1, 1)]
    assert len(log.topics["out"][0]) == 1


# -- what counts as seen -----------------------------------------------------------------------------------------------


def test_a_record_that_was_refused_does_not_count_as_seen(store: MemoryStore, log: Log, clock: ManualClock) -> None:
    """In one batch, and again over a commit: a dead letter that is written again must not be lost."""
    write(log, "1", value=b"{no json")
    write(log, "1", amount=5)
    write(log, "1", amount=7)
    write(log, "2", value=b'{"amount": "text"}')
    driver = Driver(sums(count=2), store, log, clock).give(0).turns()
    write(log, "2", amount=4)
    driver.turns()
    assert totals(log) == [("a", "count", 2, 9)]
    assert dead(log) == [("0", "undecodable"), ("3", "wrong-type")]


def test_a_record_that_crashed_the_process_three_times_does_not_count_as_seen(
    store: MemoryStore, log: Log, clock: ManualClock
) -> None:
    from tests.unit.engine import scene

    agent = sums(count=1, compute=(scene.DIES,))
    write(log, "1")
    scene.deadly["now"] = lambda message: True
    for _ in range(3):
        assert until_killed(Driver(agent, store, log, clock).give(0))
    scene.deadly.clear()
    write(log, "1")
    Driver(agent, store, log, clock).give(0).turns()
    assert dead(log) == [("0", "crash")]
    assert [count for _, _, count, _ in totals(log)] == [1]


@pytest.mark.parametrize("identity", [None, b""])
def test_a_record_without_an_id_is_a_dead_letter(
    store: MemoryStore, log: Log, clock: ManualClock, identity: bytes | None
) -> None:
    write(log, identity)
    write(log, "1")
    log.append("in", 0, b"a", None)
    Driver(sums(count=1), store, log, clock).give(0).turns()
    assert dead(log) == [("0", "no-id"), ("2", "null-value")]
    letter = log.topics["dead"][0][0]
    assert (header(letter, "sluicegate-dead-stage"), header(letter, "sluicegate-dead-error")) == (
        "dedupe",
        "the record has no id: header message-id is missing or empty",
    )
    assert len(totals(log)) == 1


def test_a_record_without_an_id_is_taken_where_the_file_says_so(
    store: MemoryStore, log: Log, clock: ManualClock
) -> None:
    for name in (None, None, "1", "1"):
        write(log, name)
    Driver(sums(Deduplication("header", "message-id", on_missing="accept")), store, log, clock).give(0).turns()
    assert (dead(log), totals(log)) == ([], [("a", "count", 3, 3)])


def test_a_tombstone_without_an_id_is_skipped_where_the_file_says_so(
    store: MemoryStore, log: Log, clock: ManualClock
) -> None:
    log.append("in", 0, b"a", None)
    driver = Driver(sums(on_null="skip"), store, log, clock).give(0).turns()
    assert (dead(log), metrics(driver)["records_skipped"]) == ([], 1)


def test_what_is_wrong_besides_is_said_first(store: MemoryStore, log: Log, clock: ManualClock) -> None:
    write(log, None, value=b"{no json")
    write(log, None, value=b'{"amount": 1, "pad": "%s"}' % (b"x" * 200))
    Driver(sums(max_record_bytes=100), store, log, clock).give(0).turns()
    assert dead(log) == [("0", "undecodable"), ("1", "too-large")]


@pytest.mark.parametrize(
    ("dedupe", "values", "taken"),
    [
        (Deduplication("field", "id"), [b'{"id": 1}', b'{"id": 1}', b'{"id": 2}'], 2),
        (
            Deduplication("field", "id"),
            [b'{"id": {"b": 1, "a": 2}}', b'{"id": {"a": 2, "b": 1}}', b'{"id": {"a": 2}}'],
            2,
        ),
        (
            Deduplication("field", "o.id"),
            [b'{"o": {"id": "x"}}', b'{"o": {"id": "x", "n": 1}}', b'{"o": {"id": "y"}}'],
            2,
        ),
        (Deduplication("field", "o.id"), [b'{"o": {"id": null}}', b'{"o": 1}', b"[1]", b'{"o": {"id": ""}}'], 0),
        (Deduplication("key"), [b"{}", b"{}"], 1),
    ],
)
def test_an_id_may_be_a_field_in_canonical_form_or_the_key(
    store: MemoryStore, log: Log, clock: ManualClock, dedupe: Deduplication, values: list[bytes], taken: int
) -> None:
    for value in values:
        write(log, None, value=value)
    Driver(sums(dedupe, count=1, compute=()), store, log, clock).give(0).turns()
    assert len(totals(log)) == taken
    assert [reason for _, reason in dead(log)] == (["no-id"] * 4 if not taken else [])


def test_of_a_header_that_is_there_twice_the_last_one_counts(store: MemoryStore, log: Log, clock: ManualClock) -> None:
    for first, last in ((b"1", b"x"), (b"1", b"y"), (b"2", b"x")):
        log.append("in", 0, b"a", b'{"amount": 1}', [("message-id", first), ("message-id", last)])
    Driver(sums(count=1), store, log, clock).give(0).turns()
    assert len(totals(log)) == 2


def test_of_a_long_id_only_its_hash_is_kept_and_all_of_it_counts(
    store: MemoryStore, log: Log, clock: ManualClock
) -> None:
    long = "x" * 2000
    for name in (long, long + "y", long, "x" * LONGEST_ID):
        write(log, name)
    driver = Driver(sums(count=1), store, log, clock).give(0).turns()
    assert len(totals(log)) == 3
    owner = driver.worker._owners["in", 0]
    assert owner.intake.dedupe is not None
    assert max(map(len, owner.intake.dedupe.seen.remembered())) == LONGEST_ID


def test_raw_records_have_no_field_to_be_an_id() -> None:
    with pytest.raises(ConfigurationError, match="raw has no fields"):
        IdRule(sums(Deduplication("field", "id"), format="raw"), codec("raw"))


# -- how long, and where -----------------------------------------------------------------------------------------------


def test_218_an_id_is_known_for_its_horizon_from_its_first_acceptance(
    store: MemoryStore, log: Log, clock: ManualClock
) -> None:
    driver = Driver(sums(Deduplication("header", "message-id", horizon=60.0), count=1), store, log, clock).give(0)
    for later in (0.0, 59.0, 2.0, 58.0):
        write(log, "1")
        driver.later(later).turns(2)
    assert [header(m, "sluicegate-first") for m in log.topics["out"][0]] == ["in/0/0", "in/0/2"]


def test_ids_are_those_of_one_partition_and_agent(store: MemoryStore, clock: ManualClock) -> None:
    log = a_log(partitions=2)
    for number in (0, 1):
        write(log, "1", number=number)
    Driver(sums(count=1), store, log, clock).give(0, 1).turns()
    Driver(sums(name="others", count=1), store, log, clock).give(0, 1).turns()
    assert len(totals(log)) == 4


def test_ids_that_were_read_from_elsewhere_mean_nothing_any_more(
    store: MemoryStore, log: Log, clock: ManualClock
) -> None:
    write(log, "1", value=b'{"id": "other"}')
    Driver(sums(count=1, compute=()), store, log, clock).give(0).turns()
    write(log, "other", value=b'{"id": "1"}')
    Driver(sums(Deduplication("field", "id"), count=1, compute=()), store, log, clock).give(0).turns()
    assert len(totals(log)) == 2


def test_beyond_the_limit_the_oldest_are_forgotten_loudly(store: MemoryStore, log: Log, clock: ManualClock) -> None:
    driver = Driver(sums(Deduplication("header", "message-id", max_ids=2), count=1), store, log, clock).give(0)
    with capture_logs() as logs:
        for name in ("1", "2", "3", "4", "4", "3", "1"):
            write(log, name)
            driver.turns(2)
    assert len(totals(log)) == 5
    assert metrics(driver)["ids_forgotten"] == 3
    assert [(line["topic"], line["partition"], line["max_ids"]) for line in logs if line["event"] == "dedupe.full"] == [
        ("in", 0, 2)
    ]
