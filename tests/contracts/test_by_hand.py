"""What people change, on every store: written down before it is done, dead rows requeued, a gap accepted."""

from sluicegate.streams.agent import Agent, Aggregation, Destination
from sluicegate.streams.aggregation.rule import fingerprint
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Changes, DeadRow, Partition, Source, TopicFacts
from sluicegate.streams.journal import journal
from sluicegate.streams.journal.amending import Person
from sluicegate.streams.operations.accepting import accept, preview
from sluicegate.streams.operations.dead.dead_rows import dead_rows, requeue
from sluicegate.streams.operations.groups.contents import contents_of
from tests.contracts.given import claimed, row, seen, tokens

AGENT = Agent("agent", ("topic.x",), Aggregation(count=3), Destination("out"), "dead")
RULE = fingerprint(AGENT)


def person() -> Person:
    return Person("ann@here", "a test", next(tokens))


def test_the_journal_keeps_who_what_and_why_in_order(store: Store, partition: Partition) -> None:
    assert journal.notes(store, partition.app) == []
    journal.note(store, partition.app, person(), "outbox drop", "ü", "b")
    journal.note(store, partition.app, person(), "timeouts cancel", "c")
    notes = journal.notes(store, partition.app)
    assert [(note.who, note.what, note.key, note.why) for note in notes] == [
        ("ann@here", "outbox drop", "ü", "a test"),
        ("ann@here", "outbox drop", "b", "a test"),
        ("ann@here", "timeouts cancel", "c", "a test"),
    ]
    assert notes[0].at == notes[1].at <= notes[2].at
    assert journal.notes(store, partition.app + "x") == []


def test_a_dead_row_is_requeued_once(store: Store, partition: Partition) -> None:
    claim = store.commit(claimed(store, partition), Changes(1, outbox=[row(1), row(2)]))
    store.commit(claim, Changes(2, dead=[DeadRow(1, "too large", 3)]))
    assert [requeue(store, partition, lambda row: True, person()) for _ in range(2)] == [1, 0]
    assert [(row.number, row.id) for row in store.pending(partition, 0, 10)] == [(2, "id-2"), (3, "id-1")]
    assert list(dead_rows(store, partition.app, [partition.agent], 10)) == []


def test_an_accepted_gap_moves_the_offset_and_begins_an_era(store: Store, partition: Partition) -> None:
    facts = TopicFacts("id", 9, 0, 40, -1, "")
    store.commit(claimed(store, partition), Changes(50, epoch=3, source=Source("id", 9, RULE, 9)))
    acceptance = accept(store, AGENT, partition, lambda: facts, person())
    view = seen(store, partition)
    assert acceptance is not None
    assert (acceptance.error.code, view.claim.offset, view.claim.epoch) == ("log-truncated", 40, -1)
    assert view.claim.source == Source("id", 9, RULE, 9, 1)
    assert [change.what for change in contents_of(AGENT, partition, view).amended] == ["accept-gap"]
    assert preview(store, AGENT, partition, lambda: facts) is None
