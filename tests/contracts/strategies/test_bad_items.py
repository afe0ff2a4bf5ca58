"""Bad messages of a group in the store's own transactions, on every store: what they were part of leaves nothing."""

from collections.abc import Iterator
from typing import Any

import pytest

from sluicegate.streams.agent import Agent, Aggregation, Destination, Handler, Reducer
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.handlers import BadItems, Batch
from tests.contracts.strategies.shop import Shop, open_now, open_shop
from tests.unit.engine.driver import Driver, distinct, header

RULE = Aggregation(count=4, compute=(Reducer("rows", "collect"),))


@pytest.fixture
def shop(store: Store, store_url: str, ns: str) -> Iterator[Shop]:
    with open_shop(store, store_url, ns) as made:
        yield made


def book_group(batch: Batch, session: Any, send: Any) -> None:
    """Order 3 cannot be booked; where `fails` has it, it is named."""
    [shop] = open_now
    numbers = [row["n"] for row in batch.value["rows"]]
    for number in numbers:
        shop.books.enter(session, f"order {number}")
    send(len(numbers))
    if 3 in numbers and shop.fails.get(3):
        raise BadItems({numbers.index(3): "sold out"})
    if 3 in numbers:
        raise ValueError("sold out")


def run(shop: Shop, **how: Any) -> None:
    handler = Handler((f"{__name__}:book_group",), session=True, backoff_first=0.1, **how)
    driver = Driver(
        Agent(shop.place.agent, ("in",), RULE, Destination("out"), "dead", handler=handler),
        shop.store,
        shop.log,
        shop.clock,
    )
    driver.give(0)
    for number in range(1, 5):
        shop.log.append("in", 0, b"k", b'{"n": %d}' % number)
    for _ in range(20):
        driver.turns(2).later(0.6)


def came_apart(shop: Shop) -> tuple[list[str], list[int], list[tuple[bytes | None, str | None]]]:
    letters = [(message.v, header(message, "sluicegate-dead-reason")) for message in distinct(shop.log, "dead")]
    return shop.lines(), shop.sent(), letters


APART = ["order 1", "order 2", "order 4"], [3], [(b'{"n": 3}', "bad-item")]


def test_what_a_group_wrote_before_it_named_a_bad_message_is_undone(shop: Shop) -> None:
    shop.fails[3] = 1
    run(shop, attempts=1)
    assert came_apart(shop) == APART


def test_what_was_written_to_find_a_bad_message_is_undone(shop: Shop) -> None:
    run(shop, attempts=3, isolate_after=2)
    assert came_apart(shop) == APART


def test_without_either_one_bad_message_takes_its_group_along(shop: Shop) -> None:
    run(shop, attempts=2)
    lines, sent, [(_, reason)] = came_apart(shop)
    assert (lines, sent, reason) == ([], [], "handler-failed")
