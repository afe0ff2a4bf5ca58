"""The end of a Kafka transaction that reaches the broker late, or whose reply is lost: on the real broker, behind a
proxy.

At the failpoint all rows and the cursor are there: what is held from then on is the request that ends the transaction.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress

import pytest
from confluent_kafka import KafkaException

from sluicegate.connectors.kafka import settings, transactions
from sluicegate.connectors.kafka.transactions import Cursors, KafkaTransactions, open_transactions
from sluicegate.streams.contracts.stores import Cursor
from sluicegate.streams.errors import Fenced, SystemNotReady
from tests.integration.test_kafka_transactions import A, Died, Shard, at
from tests.mutation.twins import without
from tests.servers.cluster import Cluster
from tests.servers.proxy import Direction
from tests.waiting import wait_until

MakeTopic = Callable[..., str]


class Place:
    """A shard, and a wire of its own to the broker for one of its producers."""

    def __init__(self, cluster: Cluster, ns: str) -> None:
        self.shard, self.bootstrap = Shard(cluster.url, ns), cluster.bootstrap(0)
        [[self.wire]] = cluster.ways
        self._reader = Cursors(self.shard.kafka, f"{ns}.sums/relay")

    def on_the_wire(self) -> KafkaTransactions:
        kafka = {**self.shard.kafka, "bootstrap.servers": self.bootstrap}
        made = open_transactions(kafka, self.shard.partition.app, "sums")(self.shard.partition)
        assert self.shard.opened(made) == {}
        return made

    def cursor(self) -> Cursor | None:
        """None while a transaction holds it."""
        with suppress(KafkaException):
            return self._reader.read(self.shard.partition)
        return None

    def mend(self) -> None:
        self.wire.accept()
        self.wire.release()


@pytest.fixture
def place(cluster: Cluster, ns: str, make_topic: MakeTopic) -> Iterator[Place]:
    make_topic(f"{ns}.in", 1, cluster.url), make_topic(f"{ns}.out", 2, cluster.url)
    made = Place(cluster, ns)
    yield made
    made.mend()
    made.shard.tap.close()


@contextmanager
def held(
    place: Place, producer: KafkaTransactions, direction: Direction, patience: float = 30.0
) -> Iterator["Future[str]"]:
    """Rows 1 and 2 are being sent, and what ends their transaction, or the reply, is held. For so long the producer
    waits for that."""

    def hold() -> None:
        place.wire.hold(direction)
        patch.setattr(transactions, "SENDING", patience)

    with ThreadPoolExecutor(1) as pool, pytest.MonkeyPatch.context() as patch, at("txn-produced", hold):
        sending = pool.submit(producer.send, place.shard.rows(1, 2), {A: 2})
        try:
            place.wire.wait_held(60)
            yield sending
        finally:
            place.mend()


def test_an_end_that_comes_after_the_timeout_ends_nothing_and_the_rows_are_sent_once(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "TRANSACTION_TIMEOUT", 4.0)
    first = place.on_the_wire()
    with held(place, first, "to-server") as sending:
        wait_until(lambda: place.cursor() == {}, 60, "the end of the transaction by the broker")
        place.wire.release()
        with pytest.raises(Fenced):
            sending.result(60)
    assert place.shard.committed() == []
    assert place.shard.opened(first) == {}
    assert first.send(place.shard.rows(1, 2), {A: 2}) == ""
    assert place.shard.committed() == [1, 2]


def overtaken(place: Place) -> list[int]:
    """The next producer sends the same rows before the end of the first one's transaction comes; what is committed
    then."""
    first, second = place.on_the_wire(), place.shard.producer()
    with held(place, first, "to-server") as sending:
        assert place.shard.opened(second) == {}
        assert second.send(place.shard.rows(1, 2), {A: 2}) == ""
        place.wire.release()
        with suppress(Fenced):
            sending.result(60)
    return place.shard.committed()


def test_an_end_that_comes_after_a_takeover_commits_nothing(place: Place) -> None:
    assert overtaken(place) == [1, 2]


def test_without_the_fence_an_end_that_comes_after_a_takeover_repeats_what_was_sent(place: Place) -> None:
    with without("relay-fence"):
        assert overtaken(place) == [1, 1, 2, 2]


def test_an_end_that_comes_in_the_next_producers_transaction_does_not_end_that(place: Place) -> None:
    first, second, third = place.on_the_wire(), place.shard.producer(), place.shard.producer()
    with held(place, first, "to-server") as sending:
        assert place.shard.opened(second) == {}
        assert second.send(place.shard.rows(1, 2), {A: 2}) == ""

        def late() -> None:
            place.wire.release()
            assert isinstance(sending.exception(60), Fenced)
            raise Died

        with at("txn-produced", late), pytest.raises(Died):
            second.send(place.shard.rows(3, 4), {A: 4})
    assert place.shard.opened(third) == {A: 2}
    assert place.shard.committed() == [1, 2]
    assert third.send(place.shard.rows(3, 4), {A: 4}) == ""
    assert place.shard.committed() == [1, 2, 3, 4]


def unanswered(place: Place, back: bool, protection: str = "") -> list[int]:
    """The transaction has ended, its reply is lost with the connection, which may come back; the next producer sends
    what the cursor does not know. What is committed then."""
    first, second = place.on_the_wire(), place.shard.producer()
    with held(place, first, "to-client", patience=3.0) as sending:
        wait_until(lambda: place.cursor() == {A: 2}, 60, "the end of the transaction")
        if not back:
            place.wire.refuse()
        place.wire.reset()
        place.wire.release()
        with suppress(Fenced, SystemNotReady):
            sending.result(60)
            assert back, "an answer came although nobody could give it"
    with without(protection):
        reached = place.shard.opened(second).get(A, 0)
    if reached < 2:
        assert second.send(place.shard.rows(*range(reached + 1, 3)), {A: 2}) == ""
    return place.shard.committed()


@pytest.mark.parametrize("back", [True, False], ids=["back", "away"])
def test_rows_whose_end_was_not_answered_are_not_sent_again(place: Place, back: bool) -> None:
    assert unanswered(place, back) == [1, 2]


def test_without_the_cursor_rows_whose_end_was_not_answered_are_sent_again(place: Place) -> None:
    assert unanswered(place, back=False, protection="relay-cursor") == [1, 1, 2, 2]
