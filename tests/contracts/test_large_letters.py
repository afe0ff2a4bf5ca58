"""The largest row that an outbox gets: every store takes it, and gives it back as it was."""

from sluicegate.streams.agent import Agent, Aggregation, Destination
from sluicegate.streams.aggregation.events import Refused
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Changes, Partition
from sluicegate.streams.formats import writes
from sluicegate.streams.outbox.rows import AnyPartition, Rows
from sluicegate.streams.outbox.sizes import LARGEST, size
from tests.contracts.given import claimed
from tests.unit.engine.driver import LogRecord

AGENT = Agent("agent", ("in",), Aggregation(count=1), Destination("out"), "dead")


def test_every_store_takes_the_letter_of_a_record_of_any_size(store: Store, partition: Partition) -> None:
    """40 MB are more than MariaDB and MongoDB take in one row. Bytes of zero are those that MariaDB doubles."""
    claim = claimed(store, partition)
    rows = Rows(partition, AGENT, writes(AGENT), AnyPartition(), LARGEST)
    rows.begin("line", 0, "topic")
    for offset, length in ((0, 40_000_000), (1, LARGEST - 3_000)):
        record = LogRecord("topic.x", 3, offset, b"k", b"\0" * length, [], 1000)
        made = rows.make([Refused(record, "decode", "too-large", "too large")])
        assert all(size(row.key, row.value, row.headers) <= LARGEST for row in made)
        claim = store.commit(claim, Changes(offset + 1, outbox=made))
        [kept] = store.pending(partition, offset, 1)
        assert (kept.value, list(kept.headers)) == (made[0].value, made[0].headers)
