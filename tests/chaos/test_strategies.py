"""What each strategy against repeated effects covers, with a crash where it matters.

A shared local transaction: own writes, messages and offset in one commit. The outbox: messages alone. Manual: own
writes elsewhere, under the id that a repeat has, too. Redelivery by Kafka is covered always: the store says where to go
on.
"""

from collections.abc import Callable

from confluent_kafka.admin import AdminClient

from tests.chaos.ledger import Ledger
from tests.chaos.verdict import Verdict

MakeLedger = Callable[..., Ledger]


def crashed(app: Ledger, fault: str, without: str = "", settle: float = 90.0) -> Verdict:
    """One worker, whose process is killed with work in hand and started again."""
    app.scene.feed.start()
    worker = app.scene.run("faulty", fault, without)
    worker.wait_hit()
    worker.wait("partition.claimed", app.scene.partitions + 1)
    app.scene.feed.stop()
    return app.verdict(settle)


def test_a_shared_local_transaction_survives_a_crash_between_the_work_and_its_commit(ledger: MakeLedger) -> None:
    """201, 202, 205: the twin, with the commit in two, is in test_books."""
    verdict = crashed(ledger("mongodb"), "before-commit=kill@2")
    assert verdict.clean, verdict


def test_the_outbox_sends_again_what_a_crash_left_unrecorded_and_receivers_drop_it(ledger: MakeLedger) -> None:
    """205, 211, 212: repeats are exact copies under the same id."""
    verdict = crashed(ledger("redis", "forward", session=False), "acked-not-recorded=kill@40")
    assert verdict.clean, verdict
    assert verdict.copies, "nothing was sent twice: this proves nothing"


def test_the_judge_finds_ghost_messages_when_they_leave_before_the_commit(ledger: MakeLedger) -> None:
    """210."""
    verdict = crashed(ledger("redis", "forward", session=False), "before-commit=lost@2", "output-commit", settle=10.0)
    assert verdict.duplicate, verdict


def test_manual_a_unique_id_of_the_handlers_own_makes_a_repeated_call_harmless(ledger: MakeLedger) -> None:
    """208, 209, 213."""
    verdict = crashed(ledger("postgresql", "book_by_id", session=False), "before-commit=kill@2")
    assert verdict.clean, verdict


def test_manual_without_the_id_the_judge_finds_entries_twice(ledger: MakeLedger) -> None:
    verdict = crashed(ledger("postgresql", "book_apart", session=False), "before-commit=kill@2", settle=10.0)
    assert verdict.duplicate, verdict


def test_manual_the_judge_finds_messages_missing_when_a_repeat_is_taken_for_sent(ledger: MakeLedger) -> None:
    """211: a duplicate must still cause what was not sent to be sent."""
    verdict = crashed(ledger("postgresql", "book_unless_known", session=False), "before-commit=kill@2", settle=10.0)
    assert verdict.lost, verdict
    assert not verdict.duplicate, verdict


def test_redelivery_what_kafka_offers_again_after_its_own_offsets_are_gone_has_no_second_effect(
    ledger: MakeLedger,
) -> None:
    """206, 216: whatever the group committed in Kafka is for people; the store says where to go on."""
    app = ledger("redis")
    app.scene.feed.send(100)
    first = app.scene.run("first")
    app.scene.settle()
    first.terminate()
    assert first.exit_code() == 0
    admin = AdminClient({"bootstrap.servers": app.scene.bootstrap, "log_level": 0})
    [group] = [
        group.group_id
        for group in admin.list_consumer_groups().result(20).valid
        if group.group_id.startswith(app.scene.name)
    ]
    admin.delete_consumer_groups([group])[group].result(20)
    app.pay(10, partition=0, key=b"k0")
    app.scene.run("second")
    verdict = app.verdict()
    assert verdict.clean, verdict
