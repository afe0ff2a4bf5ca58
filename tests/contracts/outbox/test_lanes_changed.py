"""The number of lanes changes while programs add messages: each message is in a lane that dispatchers claim."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait

from sluicegate.streams.errors import ConcurrencyError
from tests.contracts.outbox.given import Place, Store, ids, message

MANY, FEW, PATIENCE = 16, 1, 1.0


def all_claimed(store: Store) -> Sequence[str]:
    batches = [store.outbox.claim(lane, "token", 100) for lane in store.outbox.lane_numbers()]
    return sorted(id for batch in batches if batch is not None for id in ids(batch.rows))


def test_messages_of_a_transaction_that_is_open_while_the_number_changes_are_claimed(
    store: Store, place: Place
) -> None:
    other = place.store()
    other.outbox.set_lanes(MANY)
    wanted = [message(number, key=b"%d" % number) for number in range(8)]
    with ThreadPoolExecutor(1) as pool:
        with store.transaction() as session:
            store.outbox.add(session, wanted)
            change = pool.submit(other.outbox.set_lanes, FEW)
            wait([change], PATIENCE)  # a store that locks lets it wait, others let it pass
        refused = isinstance(change.exception(), ConcurrencyError)
    assert refused or other.outbox.lanes() == FEW
    assert all_claimed(other) == sorted(record.id for record in wanted)


def test_the_number_changes_again_when_all_messages_are_sent(store: Store, place: Place) -> None:
    other = place.store()
    for count in (MANY, FEW, 3):
        other.outbox.set_lanes(count)
        wanted = [message(100 * count + number, key=b"%d" % number) for number in range(8)]
        store.outbox.add(None, wanted, require_transaction=False)
        for lane in other.outbox.lane_numbers():
            batch = other.outbox.claim(lane, "token", 100)
            if batch is not None and batch.rows:
                wanted = [record for record in wanted if record.id not in ids(batch.rows)]
                other.outbox.mark(batch, None)
        assert wanted == []
