"""Headers that steer an agent are believed only with a MAC of its app, and rows of an earlier release lose nothing."""

from dataclasses import replace
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent, Destination, Handler
from sluicegate.streams.contracts import mac as codes
from sluicegate.streams.contracts.headers import MAC, RETRIED_FOR
from sluicegate.streams.contracts.lanes import first_lane
from sluicegate.streams.contracts.mac import Mac
from sluicegate.streams.contracts.record import Header
from sluicegate.streams.contracts.values import OutboxRow, Partition
from sluicegate.streams.reading import receive
from sluicegate.streams.reading.proof import HeaderProof
from sluicegate.streams.reading.receive import ReceivedShards
from tests.unit.engine.driver import Driver, Log, LogRecord, ManualClock
from tests.unit.engine.scene import a_log, an_agent, feed

KEYS = Mac("app", (b"k" * 32,))
NEWER = Mac("app", (b"n" * 32, b"k" * 32))
STRANGER = Mac("app", (b"s" * 32,))
SHARD = "app/a/src/0>in#token"


def a_row(number: int = 7, *more: Header, value: bytes = b"v", shard: str = SHARD) -> OutboxRow:
    ours = [("sluicegate-id", b"i"), ("sluicegate-shard", shard.encode()), ("sluicegate-seq", b"%d" % number)]
    return OutboxRow(number, "token", "i", "in", 0, b"k", value, [*ours, *more])


def signed(mac: Mac, row: OutboxRow) -> OutboxRow:
    [result] = mac.signed([row])
    return result


def a_record(row: OutboxRow, offset: int = 0, **other: Any) -> LogRecord:
    content = {"topic": row.topic, "partition": row.partition, "key": row.key, "value": row.value} | other
    return LogRecord(
        content["topic"], content["partition"], offset, content["key"], content["value"], list(row.headers)
    )


def by(mac: Mac | None, number: int, **more: Any) -> LogRecord:
    row = a_row(number, **more)
    return a_record(row if mac is None else signed(mac, row))


def test_a_record_is_proven_by_a_key_of_its_app() -> None:
    assert [keys.proves(a_record(signed(KEYS, a_row()))) for keys in (KEYS, NEWER, STRANGER)] == [True, True, False]
    assert not KEYS.proves(a_record(a_row()))
    assert not KEYS.proves(a_record(a_row(7, (MAC, None))))
    assert not KEYS.proves(a_record(a_row(7, (MAC, b"\xff"))))
    assert KEYS.proves(a_record(signed(KEYS, a_row(7, (MAC, b"of the message that a handler received")))))


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ((), b"0ecd41e794cb5075a5fd62329bca75a7"),
        (
            (("sluicegate-count", b"3"), ("user", b"1"), ("sluicegate-window", None)),
            b"6a484742359a1d2426d0294c85ee5107",
        ),
        (((RETRIED_FOR, b"app/a"), ("user", b"1")), b"1658a4f114b5ed905ee865a0fbd42661"),
    ],
    ids=["plain", "result", "steering"],
)
def test_a_mac_never_changes_for_topics_hold_records_of_earlier_releases(more: tuple[Header, ...], code: bytes) -> None:
    assert signed(KEYS, a_row(7, *more)).headers[-1] == (MAC, code)


def test_headers_of_other_names_change_no_mac_and_the_memory_for_names_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(codes, "MOST_NAMES", len(codes.PLACES) + 5)
    monkeypatch.setattr(codes, "PLACES", dict(codes.PLACES))
    row, names = signed(KEYS, a_row()), [*(f"made-up-{number}" for number in range(20)), "x" * 1_000_000]
    for name in reversed(names):
        others: list[Header] = [(name, b"1"), *row.headers, (name, b"2"), ("sluicegate-unknown", b"3")]
        assert KEYS.proves(replace(a_record(row), h=others))
        assert not KEYS.proves(replace(a_record(row, value=b"forged"), h=others))
    assert len(codes.PLACES) == codes.MOST_NAMES
    assert names[-1] not in codes.PLACES


def test_a_header_of_the_mac_without_a_value_is_replaced() -> None:
    row = signed(KEYS, a_row(7, (MAC, None)))
    assert [name for name, _ in row.headers].count(MAC) == 1
    assert KEYS.proves(a_record(row))


def test_of_two_headers_with_one_name_the_first_is_covered() -> None:
    row = signed(KEYS, a_row())
    other: Header = ("sluicegate-seq", b"8")
    assert KEYS.proves(replace(a_record(row), h=[*row.headers, other]))
    assert not KEYS.proves(replace(a_record(row), h=[other, *row.headers]))


@pytest.mark.parametrize("name", ["sluicegate-retried-for", "sluicegate-time"])
def test_a_steering_header_without_a_value_steers(name: str) -> None:
    plain = signed(KEYS, a_row())
    assert not KEYS.proves(replace(a_record(plain), h=[*plain.headers, (name, None)]))


@pytest.mark.parametrize("other", [{"topic": "else"}, {"partition": 1}, {"key": b"x"}, {"key": None}], ids=str)
def test_a_mac_that_is_copied_to_another_place_or_key_proves_nothing(other: dict[str, Any]) -> None:
    assert not KEYS.proves(a_record(signed(KEYS, a_row()), **other))


@pytest.mark.parametrize("name", ["sluicegate-id", "sluicegate-shard", "sluicegate-seq"])
def test_a_mac_that_is_copied_to_another_number_proves_nothing(name: str) -> None:
    row = signed(KEYS, a_row())
    changed: list[Header] = [(header, b"1" if header == name else value) for header, value in row.headers]
    assert not KEYS.proves(replace(a_record(row), h=changed))
    without = [header for header in row.headers if header[0] != name]
    assert not KEYS.proves(replace(a_record(row), h=without))


def test_a_mac_that_is_copied_to_another_value_proves_nothing() -> None:
    row = signed(KEYS, a_row())
    assert KEYS.proves(a_record(row))
    assert not KEYS.proves(a_record(row, value=b"forged"))


def test_of_a_record_that_steers_all_headers_of_ours_are_covered() -> None:
    row = signed(KEYS, a_row(7, (RETRIED_FOR, b"app/a"), ("user", b"1")))
    assert KEYS.proves(a_record(row))
    assert not KEYS.proves(a_record(row, value=b"forged"))
    without = [header for header in row.headers if header[0] != RETRIED_FOR]
    more: Header = ("sluicegate-origin", b"in/0/1")
    plain = signed(KEYS, a_row())
    for headers in (without, [*row.headers, more], [*plain.headers, (RETRIED_FOR, b"app/a")]):
        assert not KEYS.proves(replace(a_record(row), h=headers))


def after_forged_numbers(proof: HeaderProof) -> int:
    """How many of 100 genuine records are taken, when somebody wrote their numbers before they came."""
    senders = ReceivedShards("in")
    senders.drop_repeats([by(None, number) for number in range(100)], 1.0, proof)
    senders.drop_repeats([by(STRANGER, number) for number in range(100)], 1.0, proof)
    return len(senders.drop_repeats([by(KEYS, number) for number in range(100)], 1.0, proof))


def test_forged_numbers_drop_no_genuine_record() -> None:
    proof = HeaderProof(KEYS, 0)
    assert after_forged_numbers(proof) == 100
    assert proof.refused == 200


def test_twin_that_believes_any_number_drops_them_all() -> None:
    assert after_forged_numbers(HeaderProof(KEYS)) == 0


def test_a_genuine_repeat_is_dropped_and_so_is_a_forged_copy_of_what_was_taken() -> None:
    senders, proof = ReceivedShards("in"), HeaderProof(KEYS, 0)
    taken = [len(senders.drop_repeats([by(mac, 1)], 1.0, proof)) for mac in (KEYS, KEYS, STRANGER, None)]
    assert (taken, senders.receipts()) == ([1, 0, 0, 0], (3, 0, 0))


def test_repeats_of_another_app_are_dropped_and_count_as_nothing_refused() -> None:
    senders, proof = ReceivedShards("in"), HeaderProof(KEYS, 0)
    other = Mac("other", (b"o" * 32,))
    numbers = (1, 2, 1, 3, 3)
    shard = "other/b/src/0>in#token"
    assert [len(senders.drop_repeats([by(other, n, shard=shard)], 1.0, proof)) for n in numbers] == [1, 1, 0, 1, 0]
    assert proof.refused == 0


def test_a_flood_of_forged_shards_pushes_out_no_genuine_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receive, "MOST_UNPROVEN", 50)
    monkeypatch.setattr(receive, "MOST_SENDERS", 50)
    proof = HeaderProof(KEYS, 0)
    assert _known_after_a_flood(proof)


def test_twin_a_flood_that_is_believed_pushes_it_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receive, "MOST_SENDERS", 50)
    assert not _known_after_a_flood(HeaderProof(KEYS))


def _known_after_a_flood(proof: HeaderProof) -> bool:
    senders = ReceivedShards("in")
    senders.drop_repeats([by(KEYS, 1)], 1.0, proof)
    for number in range(200):
        senders.drop_repeats([by(None, 1, shard=f"app/a/src/0>in#{number}")], 2.0, proof)
    assert len(senders.shards) <= 51
    return not senders.drop_repeats([by(KEYS, 1)], 3.0, proof)


def test_a_forged_time_mark_is_left_out_and_a_forged_stamp_says_nothing() -> None:
    senders, proof = ReceivedShards("in"), HeaderProof(KEYS, 0)
    stamp: list[Header] = [("sluicegate-origin", b"in/0/9"), ("sluicegate-time", b"1"), ("sluicegate-agent", b"a.r")]
    mark = a_record(a_row(1, *stamp, ("sluicegate-state", b"idle/1")), value=None)
    assert senders.drop_repeats([mark], 1.0, proof) == []
    [kept] = senders.drop_repeats([a_record(a_row(2, *stamp))], 1.0, proof)
    assert [name for name, _ in kept.headers() or ()][3:] == ["sluicegate-agent"]
    genuine = a_record(signed(KEYS, a_row(3, *stamp)))
    assert senders.drop_repeats([genuine], 1.0, proof) == [genuine]
    assert proof.refused == 2


def test_what_an_earlier_release_sent_is_a_repeat_when_it_comes_with_a_mac() -> None:
    """Its rows have no MAC. The process that follows sends some of them again, signed."""
    senders, proof = ReceivedShards("in"), HeaderProof(KEYS)
    assert len(senders.drop_repeats([by(None, n) for n in (1, 2, 3)], 1.0, proof)) == 3
    after = ReceivedShards("in")
    after.replay(senders.changes(), {}, 1.0)
    proof.since = 0
    assert len(after.drop_repeats([by(KEYS, n) for n in (2, 3, 4, 5)], 2.0, proof)) == 2


@pytest.fixture
def log() -> Log:
    return a_log("in", "out", "dead")


def a_driver(store: MemoryStore, log: Log, clock: ManualClock, mac: Mac | None) -> Driver:
    return Driver(an_agent(count=2), store, log, clock, mac=mac).give(0).turns(8)


def since(store: MemoryStore) -> int:
    view = store.read(Partition("app", "sums", "in", 0))
    assert view is not None
    assert view.claim.source is not None
    return view.claim.source.proof_from


def hidden(log: Log) -> None:
    """A record that says that it was retried for another agent."""
    value = b'{"amount": 1}'
    log.append("in", 0, b"bob", value, [(RETRIED_FOR, b"app/other"), (MAC, b"0" * 32)])


def test_a_record_that_another_program_marks_for_another_agent_is_counted(
    store: MemoryStore, log: Log, clock: ManualClock
) -> None:
    driver = a_driver(store, log, clock, KEYS)
    hidden(log)
    hidden(log)
    driver.turns(8).later(0.5).turns(8)
    assert len(log.topics["out"][0]) == 1
    assert ("headers_refused", ("unproven",), 2) in driver.worker.reports.of(0.0).metrics


def test_twin_without_the_key_it_is_passed_over(store: MemoryStore, log: Log, clock: ManualClock) -> None:
    driver = a_driver(store, log, clock, None)
    hidden(log)
    hidden(log)
    driver.turns(8).later(0.5).turns(8)
    assert log.topics["out"][0] == []


def test_a_new_agent_needs_proof_from_the_first_record_on(store: MemoryStore, log: Log, clock: ManualClock) -> None:
    feed(log, ("bob", 5))
    a_driver(store, log, clock, KEYS)
    assert since(store) == 0


def test_an_agent_of_an_earlier_release_needs_proof_behind_what_its_partition_holds(
    store: MemoryStore, log: Log, clock: ManualClock
) -> None:
    feed(log, ("bob", 5))
    a_driver(store, log, clock, None)
    assert since(store) == -1
    hidden(log)
    driver = a_driver(store, log, clock, KEYS)
    assert since(store) == 2
    hidden(log)
    driver.turns(8).later(0.5).turns(8)
    assert len(log.topics["out"][0]) == 1


def test_while_processes_of_an_earlier_release_may_run_no_record_needs_proof(
    store: MemoryStore, log: Log, clock: ManualClock
) -> None:
    """The proof begins under a claim that goes on, with a commit that is made anyway."""
    feed(log, ("bob", 5))
    mac = Mac("app", (b"k" * 32,), since=clock.now + 1_700_000_000 + 3600)
    driver = a_driver(store, log, clock, mac)
    hidden(log)
    driver.turns(8).later(0.5).turns(8)
    assert (since(store), log.topics["out"][0]) == (-1, [])
    driver.later(3600).turns(8)
    assert (since(store), len(log.topics["out"][0])) == (2, 1)  # the group of the first record timed out
    hidden(log)
    hidden(log)
    driver.turns(8).later(0.5).turns(8)
    assert (since(store), len(log.topics["out"][0])) == (2, 2)


def test_all_rows_of_a_worker_are_signed_also_in_transactions(store: MemoryStore, log: Log, clock: ManualClock) -> None:
    for delivery in ("at-least-once", "transactional"):
        agent = replace(an_agent(delivery.replace("-", ""), count=1), delivery=delivery)
        feed(log, ("bob", 5))
        Driver(agent, store, log, clock, mac=KEYS).give(0).turns(20).later(1).turns(20)
    sent = log.topics["out"][0]
    assert len(sent) >= 3
    assert all(KEYS.proves(message) for message in sent)


def test_a_handler_that_passes_on_headers_steers_no_one(store: MemoryStore, log: Log, clock: ManualClock) -> None:
    """They describe the message that it received, and would be signed as its own."""
    log.append("in", 0, b"k", b"1", [(RETRIED_FOR, b"app/sums"), ("sluicegate-shard", b"forged"), ("own", b"x")])
    handler = Handler(("tests.unit.engine.handlers:pass_on",))
    agent = Agent("sums", ("in",), None, Destination("out"), "dead", handler=handler)
    Driver(agent, store, log, clock, mac=KEYS).give(0).turns(8)
    [sent] = log.topics["out"][0]
    names = [name for name, _ in sent.h or ()]
    assert (names.count("own"), names.count("sluicegate-shard"), names.count(RETRIED_FOR)) == (1, 1, 0)


def test_a_forged_number_of_a_lane_of_the_app_is_counted_and_one_of_another_app_is_not() -> None:
    mine, others, nobodys = (f"outbox/{lane}>in#store" for lane in (first_lane("app") + 5, first_lane("other"), 5))
    for shard, refused in (
        (mine, 1),
        (others, 0),
        (nobodys, 0),
        ("outbox/x>in#store", 0),
        (f"outbox/{'9' * 30}>in#s", 0),
    ):
        proof = HeaderProof(KEYS, 0)
        ReceivedShards("in").drop_repeats([by(None, 1, shard=shard)], 1.0, proof)
        assert proof.refused == refused, shard
