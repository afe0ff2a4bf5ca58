"""Handlers that raise, hang, end the process or run out of memory: what the file says happens to that payment, the rest
flows."""

from collections.abc import Callable, Iterator

import pytest

from tests.chaos.ledger import Ledger
from tests.chaos.memory import MemoryGroup
from tests.chaos.record import Seen
from tests.chaos.worker import Worker
from tests.waiting import wait_until

MakeLedger = Callable[..., Ledger]
QUICK = {"session.timeout.ms": 1000, "heartbeat.interval.ms": 200}
BOTH = ("book", "check")
THREE = {"attempts": 3, "backoff": "20ms..50ms"}


def given(app: Ledger, **payment: object) -> None:
    """Ordinary payments around one in partition 0 that never works."""
    app.scene.feed.send(60)
    app.scene.poison = frozenset(app.pay(**payment))  # type: ignore[arg-type]
    app.scene.feed.send(60)


def letter(app: Ledger, reason: str) -> Seen:
    """The dead letter of the payment that never works."""
    [dead_letter] = [letter for letter in app.letters(reason) if b'"do"' in (letter.value or b"")]
    return dead_letter


def row(worker: Worker, number: int) -> dict[str, object]:
    return next((row for row in worker.partitions() if row["number"] == number), {})


def test_a_payment_that_always_fails_is_a_dead_letter_after_its_attempts_and_leaves_no_entry(
    ledger: MakeLedger,
) -> None:
    """The first handler wrote, the second one raises: what both did is undone (behaviours 201 and 202)."""
    app = ledger("postgresql", *BOTH, retry=THREE)
    given(app, do="raise")
    app.scene.run()
    verdict = app.verdict()
    assert verdict.clean, verdict
    headers = letter(app, "handler-failed").headers
    error = headers["sluicegate-dead-error"]
    assert (headers["sluicegate-dead-attempts"], error) == (
        "3",
        "the handler raised RuntimeError: this payment is refused",
    )


def test_the_judge_finds_the_entry_of_a_failed_payment_without_a_shared_transaction(ledger: MakeLedger) -> None:
    app = ledger("postgresql", "book_apart", "check", session=False, retry=THREE)
    given(app, do="raise")
    app.scene.run()
    verdict = app.verdict()
    assert verdict.lost, verdict  # an entry without a payment that counts


def test_then_stop_halts_that_partition_alone_and_goes_on_when_the_handler_is_corrected(ledger: MakeLedger) -> None:
    app = ledger("mongodb", *BOTH, then="stop")
    app.scene.feed.send(60)
    [bad] = app.pay(do="raise-until-corrected")
    app.pay(5, partition=0, key=b"k2")
    app.pay(5, partition=1, key=b"k1")
    worker = app.scene.run()
    worker.wait("partition.halted", code="handler-stopped", partition=0)
    done = app.scene.tap.ends(f"{app.scene.name}.in")[1]
    wait_until(lambda: row(worker, 1).get("offset") == done, 40, "the other partition", pause=0.2)
    assert [row(worker, number).get("error") or "" for number in (0, 1)] == ["handler-stopped", ""]
    assert worker.get("/readyz")[0] == 503
    assert not [entry for entry in app.books.entries() if entry["account"] == "k0" and entry["first"] >= bad[1]]
    worker.terminate()
    assert worker.exit_code() == 0
    (app.scene.folder / "corrected").touch()
    app.scene.run("corrected")
    verdict = app.verdict()
    assert verdict.clean, verdict
    assert not app.letters("handler-failed")


def test_while_another_system_is_away_nothing_is_given_up(ledger: MakeLedger) -> None:
    app = ledger("redis", *BOTH)
    app.scene.feed.send(60)
    app.pay(do="outage")
    app.pay(5, partition=0, key=b"k2")
    worker = app.scene.run()
    worker.wait("handler.outage", 2)
    (app.scene.folder / "back").touch()
    verdict = app.verdict()
    assert verdict.clean, verdict
    assert not app.letters("handler-failed")


@pytest.mark.parametrize("store", ["postgresql", "redis"])
def test_a_partition_whose_handler_hangs_longer_than_the_poll_interval_moves_and_the_books_balance(
    ledger: MakeLedger, store: str
) -> None:
    """It wakes up when another worker has the partition, and its transaction is nobody's any more."""
    app = ledger(store, *BOTH, kafka=QUICK | {"max.poll.interval.ms": 2000})
    app.scene.feed.send(60)
    app.pay(do="hang-once", seconds=7)
    app.pay(5, partition=0, key=b"k2")
    sleeper = app.scene.run("sleeper")
    wait_until((app.scene.folder / "hung").exists, 30, "the handler that hangs")
    other = app.scene.run("other")
    other.wait("partition.claimed", partition=0)
    wait_until(
        lambda: any(sleeper.events(f"partition.{how}") for how in ("fenced", "revoked", "unavailable")),
        30,
        "its awakening",
    )
    verdict = app.verdict()
    assert verdict.clean, verdict


def test_a_handler_that_always_outlasts_its_transaction_holds_its_partition_loudly_and_the_other_one_flows(
    ledger: MakeLedger,
) -> None:
    """PostgreSQL ends a transaction that was idle for 4 s: an outage of the store, as far as anybody can tell, and no
    attempt."""
    app = ledger("postgresql", *BOTH)
    app.scene.feed.send(60)
    [bad] = app.pay(do="hang", seconds=5)
    app.pay(5, partition=1, key=b"k1")
    worker = app.scene.run()
    worker.wait("partition.unavailable", partition=0)
    wait_until(lambda: "waiting to claim" in str(worker.get("/readyz")), 20, "the reason", pause=0.2)
    done = app.scene.tap.ends(f"{app.scene.name}.in")[1]
    wait_until(lambda: row(worker, 1).get("offset") == done, 40, "the other partition", pause=0.2)
    worker.kill9()
    verdict = app.verdict(settle=0.1)
    assert [line for line in verdict.lost if str(bad) in line]
    assert not verdict.duplicate, verdict
    assert not [record for record in app.scene.records("dead") if b'"do"' in (record.value or b"")]


@pytest.mark.parametrize(
    ("do", "code", "store"), [("exit", 1, "postgresql"), ("killed", -9, "mongodb"), ("segv", -11, "redis")]
)
def test_a_payment_that_ends_three_processes_is_a_dead_letter_without_an_entry(
    ledger: MakeLedger, do: str, code: int, store: str
) -> None:
    """`os._exit`, or a signal as the kernel sends it to who has too much memory or writes where none is."""
    app = ledger(store, *BOTH, kafka=QUICK)
    given(app, do=do)
    worker = app.scene.run()
    verdict = app.verdict()
    assert verdict.clean, verdict
    assert letter(app, "crash").headers["sluicegate-dead-attempts"] == "3"
    assert [event["code"] for event in worker.events("worker.ended")] in ([code] * 3 + [0], [code] * 4 + [0])


def test_children_that_handlers_fork_take_nothing_and_repeat_nothing(ledger: MakeLedger) -> None:
    app = ledger("postgresql", *BOTH, kafka=QUICK)
    app.scene.feed.send(60)
    app.pay(5, do="fork")
    app.scene.feed.send(60)
    app.scene.run()
    verdict = app.verdict()
    assert verdict.clean, verdict
    assert not [record for record in app.scene.records("dead") if b'"do"' in (record.value or b"")]


def test_without_crash_marks_a_payment_that_ends_the_process_stops_its_partition(ledger: MakeLedger) -> None:
    app = ledger("redis", *BOTH, kafka=QUICK)
    given(app, do="exit")
    worker = app.scene.run(without="crash-marks")
    worker.wait("worker.ended", 5, code=1)  # one more than it ever takes
    verdict = app.verdict(settle=0.1)
    assert verdict.lost, verdict


def test_a_payment_for_which_the_memory_does_not_suffice_is_a_failure_of_the_handler(ledger: MakeLedger) -> None:
    """Under a limit that the interpreter is told of; no process ends by it."""
    app = ledger("redis", *BOTH, retry=THREE)
    given(app, do="memory")
    worker = app.scene.run()
    verdict = app.verdict()
    assert verdict.clean, verdict
    assert letter(app, "handler-failed").headers["sluicegate-dead-error"] == "the handler raised MemoryError"
    assert [event["code"] for event in worker.events("worker.ended")] == [0]


@pytest.fixture
def memory_group(ns: str) -> Iterator[MemoryGroup]:
    try:
        group = MemoryGroup(ns, 64 * 1024 * 1024)
    except OSError as error:
        pytest.skip(f"no cgroup with a memory limit: {error}")
    yield group
    group.close()


def test_a_payment_that_takes_all_memory_is_ended_by_the_kernel_and_is_a_dead_letter(
    ledger: MakeLedger, memory_group: MemoryGroup
) -> None:
    """A real kill for want of memory, three times; the supervisor starts the worker again, and the rest flows."""
    app = ledger("postgresql", *BOTH, kafka=QUICK)
    given(app, do="memory-until-killed", group=str(memory_group.joining))
    worker = app.scene.run()
    verdict = app.verdict()
    assert verdict.clean, verdict
    assert letter(app, "crash").headers["sluicegate-dead-attempts"] == "3"
    assert memory_group.kills() in (3, 4)
    assert [event["code"] for event in worker.events("worker.ended")] == [-9] * memory_group.kills() + [0]
