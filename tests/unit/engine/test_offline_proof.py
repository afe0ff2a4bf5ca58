"""Commands that read records again judge forged ones as the worker judged them: rebuild, shadow, explain, eval, the
sample of check, replay --rewind and dead retry."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams import failpoints
from sluicegate.streams.agent import App, Reducer
from sluicegate.streams.contracts.headers import RETRIED_FOR
from sluicegate.streams.contracts.ids import fire_ids, output_id, retry_id
from sluicegate.streams.contracts.mac import Mac
from sluicegate.streams.contracts.record import Header
from sluicegate.streams.contracts.values import NOBODY, OutboxRow, Partition
from sluicegate.streams.operations import explaining
from sluicegate.streams.operations.answering import believed, record_verdict
from sluicegate.streams.operations.dead.dead_letters import Retried
from sluicegate.streams.operations.proofs import row_proof
from sluicegate.streams.operations.replaying.shadowing import Shadowing
from sluicegate.streams.operations.sampling import sampled
from sluicegate.streams.reading.proof import HeaderProof
from sluicegate.streams.versions import mac_keys
from tests.unit.engine.driver import Driver, Log, ManualClock, header, memory
from tests.unit.engine.rebuilding import EPOCH, LogHistory, emitted_twice, plans, rebuild, state
from tests.unit.engine.scene import a_log, an_agent
from tests.unit.engine.test_dead_letters import again, found, times
from tests.unit.shadow.scene import ALL, NoWatch, all_identical
from tests.unit.shadow.test_corrections import Corrector, own_partitions, play, rule

AGENT = an_agent(count=2, since_first=600.0, receive=("in",), compute=(Reducer("ids", "collect", "n"),))
PARTITION = Partition("app", "sums", "in", 0)
SHARD = b"app/first/src/0>in#token"
GENUINE, KEYS = 8, ("a", "b")


@pytest.fixture
def log() -> Log:
    return a_log("in", "out", "dead")


@pytest.fixture
def mac(store: MemoryStore) -> Mac:
    return mac_keys.read_or_make(store, "app", lambda: "keys")


@pytest.fixture
def driver(log: Log, store: MemoryStore, clock: ManualClock, mac: Mac) -> Driver:
    """A worker that has read genuine records whose numbers a forger wrote before, and hidden ones."""
    made = Driver(AGENT, store, log, clock, mac=mac).give(0).turns()
    for number in range(GENUINE):
        forge(log, clock, *numbered(number))
    for number in range(GENUINE):
        write(log, clock, mac, *numbered(number))
        forge(log, clock, (RETRIED_FOR, b"app/other"))
    write(log, clock, mac, (RETRIED_FOR, b"app/other"))
    write(log, clock, mac, *numbered(1))
    return made.turns(8).later(0.5).turns(8)


def numbered(number: int) -> list[Header]:
    return [("sluicegate-id", b"i%d" % number), ("sluicegate-shard", SHARD), ("sluicegate-seq", b"%d" % number)]


def forge(log: Log, clock: ManualClock, *headers: Header) -> None:
    write(log, clock, None, *headers)


def write(log: Log, clock: ManualClock, mac: Mac | None, *headers: Header, topic: str = "in") -> None:
    offset = log.high(topic, 0)
    row = OutboxRow(
        offset, "t", "i", topic, 0, KEYS[offset % 2].encode(), json.dumps({"n": offset}).encode(), [*headers]
    )
    row = row if mac is None else mac.signed([row])[0]
    log.append(topic, 0, row.key, row.value, list(row.headers), int((clock.now + EPOCH) * 1000))


def results(log: Log) -> list[list[int]]:
    return [json.loads(message.v or b"")["ids"] for message in log.topics["out"][0]]


def lose_row(store: MemoryStore) -> None:
    """The row of the partition is lost, and the keys of the app are not."""
    store.forget(store.claim(PARTITION, "lost", NOBODY))


def test_the_worker_takes_all_but_what_its_app_repeats_and_hides(driver: Driver, log: Log) -> None:
    """So the figures below are those of a worker that believed nothing forged."""
    counted = [offset for result in results(log) for offset in result]
    assert sorted(counted) == list(range(3 * GENUINE))
    assert ("headers_refused", ("unproven",), 3 * GENUINE) in driver.worker.reports.of(0.0).metrics


def test_a_rebuild_gives_the_state_of_the_worker(
    driver: Driver, log: Log, store: MemoryStore, clock: ManualClock, mac: Mac
) -> None:
    write(log, clock, mac, *numbered(90))
    driver.turns(4).later(0.5).turns(4)
    before, sent = state(AGENT, store), len(log.topics["out"][0])
    assert before[1]
    lose_row(store)
    [planned] = rebuild(AGENT, store, log, clock)
    assert (state(AGENT, store), planned.built.decided) == (before, {})
    Driver(AGENT, store, log, clock, mac=mac).give(0).turns(8).later(0.5).turns(8)
    assert (emitted_twice(log.topics["out"][0]), len(log.topics["out"][0])) == ([], sent)
    view = store.read(PARTITION)
    assert view is not None
    assert view.claim.source is not None
    assert view.claim.source.proof_from == 0


def forged_result(log: Log, first: int, last: int) -> None:
    """A result that the agent never sent, of records in an open group."""
    facts = LogHistory(log, "app.sums").facts("in", 0)
    fire = fire_ids(PARTITION, facts.topic_id)(first)
    headers: list[Header] = [
        ("sluicegate-id", output_id(fire, 0).encode()),
        ("sluicegate-shard", b"app/sums/in/0>out#token"),
        ("sluicegate-seq", b"900"),
        ("sluicegate-fire", fire.encode()),
        ("sluicegate-reason", b"timeout"),
        ("sluicegate-count", b"1"),
        ("sluicegate-first", b"in/0/%d" % first),
        ("sluicegate-last", b"in/0/%d" % last),
        ("sluicegate-agent", b"sums"),
    ]
    log.append("out", 0, b"a", b'{"ids": []}', headers)


def test_a_rebuild_leaves_out_forged_results_and_records_of_no_sender(
    driver: Driver, log: Log, store: MemoryStore, clock: ManualClock, mac: Mac
) -> None:
    write(log, clock, mac, *numbered(90))
    driver.turns(4).later(0.5).turns(4)
    before = state(AGENT, store)
    [(_, first, last, _)] = before[1].values()
    forged_result(log, first, last)
    log.append("out", 0, b"a", b"of another program")
    lose_row(store)
    texts = list[str]()
    rebuilds = plans(AGENT, store, log)
    [planned] = rebuilds.plan(clock.now + EPOCH, texts.append)
    assert planned.built.groups.states.keys() == before[1].keys()
    assert "1 message of the agent's name without proof of the app: left out" in texts


def test_where_the_keys_are_lost_too_a_rebuild_believes_and_says_so(
    log: Log, store: MemoryStore, clock: ManualClock, mac: Mac
) -> None:
    """A worker may have made new ones in the new store already."""
    driver = Driver(AGENT, store, log, clock, mac=mac).give(0)
    for number in range(GENUINE):
        write(log, clock, mac, *numbered(number))
    driver.turns(8).later(0.5).turns(8)
    lost = memory(clock)
    mac_keys.read_or_make(lost, "app", lambda: "new")
    texts, made = list[str](), plans(AGENT, lost, log)
    sent = len(log.topics["out"][0])
    [planned] = made.plan(clock.now + EPOCH, texts.append)
    assert planned.built.results == sent
    assert [text for text in texts if "believed without proof" in text]
    made.note_lost_keys("token")
    new = mac_keys.read(lost, "app")
    assert new is not None
    assert 0 < new.since <= clock.now + EPOCH + 1


def shadowed(store: MemoryStore, log: Log) -> Shadowing:
    return Shadowing(App("app", "memory://", (AGENT,)), AGENT, store, LogHistory(log, "app.sums"), ALL, NoWatch())


def test_a_shadow_finds_what_the_worker_did(driver: Driver, log: Log, store: MemoryStore) -> None:
    comparison = shadowed(store, log).compare(AGENT)
    assert all_identical(comparison)
    assert (comparison.results.counts["identical"], comparison.notes) == (len(results(log)), [])


def test_a_shadow_leaves_out_forged_results(
    driver: Driver, log: Log, store: MemoryStore, clock: ManualClock, mac: Mac
) -> None:
    write(log, clock, mac, *numbered(90))
    driver.turns(4).later(0.5).turns(4)
    [(_, first, last, _)] = state(AGENT, store)[1].values()
    forged_result(log, first, last)
    log.append("out", 0, b"a", b"of another program")
    comparison = shadowed(store, log).compare(AGENT)
    assert all_identical(comparison)
    assert comparison.notes == ["1 message of the agent's name without proof of the app: left out"]


def explained(log: Log, store: MemoryStore, mac: Mac, id: str) -> tuple[list[int], bool]:
    explanation = explaining.output(log.topics["out"][0], id, mac)
    assert explanation is not None
    assert explanation.span is not None
    proof = row_proof(store, mac, PARTITION)
    made = explaining.explained("app", AGENT, explanation, explanation.span, log.topics["in"][0], 0, proof)
    assert made.notes == []
    return made.offsets, explanation.proven


def test_explain_names_the_records_that_the_worker_counted(
    driver: Driver, log: Log, store: MemoryStore, mac: Mac
) -> None:
    for message in log.topics["out"][0]:
        wanted = json.loads(message.v or b"")["ids"]
        assert explained(log, store, mac, header(message, "sluicegate-id") or "") == (wanted, True)


def test_explain_prefers_the_output_that_the_app_wrote(driver: Driver, log: Log, store: MemoryStore, mac: Mac) -> None:
    genuine = log.topics["out"][0][0]
    headers = [(n, b"in/0/900" if n in ("sluicegate-first", "sluicegate-last") else v) for n, v in genuine.h or ()]
    forged = replace(genuine, h=headers)
    id = header(genuine, "sluicegate-id") or ""
    for records in ([forged, genuine], [genuine, forged]):
        explanation = explaining.output(records, id, mac)
        assert explanation is not None
        assert (explanation.proven, explanation.span and explanation.span.first) == (
            True,
            json.loads(genuine.v or b"")["ids"][0],
        )
    added = explaining.output([replace(genuine, h=[*(genuine.h or ()), *headers])], id, mac)
    assert added is not None
    assert (added.proven, added.span and added.span.first) == (True, json.loads(genuine.v or b"")["ids"][0])
    alone = explaining.output([forged], id, mac)
    assert alone is not None
    assert not alone.proven


def test_eval_and_sample_judge_a_forged_record_as_one_of_any_producer(
    driver: Driver, log: Log, store: MemoryStore, mac: Mac
) -> None:
    proof = row_proof(store, mac, PARTITION)
    verdicts = [record_verdict("app", AGENT, record, proof).outcome for record in log.topics["in"][0]]
    assert (verdicts.count("taken"), verdicts.count("passed-over")) == (3 * GENUINE + 1, 1)
    asked = replace(AGENT, where="n >= 0")
    assert sampled("app", asked, log.topics["in"][0], lambda partition: proof)[0] == 3 * GENUINE + 1


def test_eval_reads_no_forged_stamp(log: Log, clock: ManualClock, mac: Mac) -> None:
    stamp: Header = ("sluicegate-time", b"1")
    forge(log, clock, *numbered(1), stamp)
    write(log, clock, mac, *numbered(2), stamp)
    proof = HeaderProof(mac, 0)
    read = [believed(AGENT, record, proof).headers() or [] for record in log.topics["in"][0]]
    assert [stamp in text for text in read] == [False, True]


@pytest.fixture
def disarmed() -> Iterator[None]:
    yield
    failpoints.arm({})


def test_a_replay_sends_the_correction_whose_number_a_forger_wrote(disarmed: None) -> None:
    """It was committed and not sent when the command died; the forger names it as sent."""
    scene = play(rule(3), 1, 60)
    corrector = Corrector(scene, rule(2))
    failpoints.arm({"SLUICEGATE_FAILPOINTS": "correction-committed=raise"})
    with pytest.raises(failpoints.Failpoint):
        corrector.run()
    failpoints.arm({})
    waiting = [
        (partition, row) for partition in own_partitions(scene) for row in scene.store.pending(partition, 0, 500)
    ]
    assert waiting
    assert not corrector.sent()
    for partition, row in waiting:
        shard = "{}/{}/{}/{}>mended#x".format(*partition).encode()
        headers: list[Header] = [("sluicegate-shard", shard), ("sluicegate-seq", b"%d" % row.number)]
        scene.log.append("mended", 0, b"k", b"forged", headers)
    corrector.run()
    sent = {header(message, "sluicegate-id") for message in corrector.sent()}
    assert {row.id for _, row in waiting} <= sent
    mac = mac_keys.read(scene.store, "app")
    assert mac is not None
    assert all(mac.proves(message) for message in corrector.sent() if message.v != b"forged")


def test_a_retry_sends_the_record_whose_id_a_forger_wrote(
    log: Log, store: MemoryStore, clock: ManualClock, mac: Mac, disarmed: None
) -> None:
    log.append("in", 0, b"k", b"{bad")
    Driver(AGENT, store, log, clock, mac=mac).give(0).turns(8)
    failpoints.arm({"SLUICEGATE_FAILPOINTS": "retry-asked=raise"})
    times.clock = clock
    with pytest.raises(failpoints.Failpoint):
        again(log, store)
    failpoints.arm({})
    [letter] = found(log, "in/0/0")
    log.append("in", 0, b"k", b"{}", [("sluicegate-id", retry_id(letter.id, 0).encode())])
    assert again(log, store) == Retried(1, 0, [])
    assert log.topics["in"][0][-1].v == b"{bad"
