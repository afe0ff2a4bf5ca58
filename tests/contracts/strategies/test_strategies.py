"""De-duplication and the unit of work on every store: a handler's entries, messages and position after crashes."""

from collections.abc import Iterator
from typing import Any

import pytest

from sluicegate.streams import failpoints
from sluicegate.streams.contracts.ids import fire_ids
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.testing.log import LogInput
from tests.contracts.given import seen
from tests.contracts.strategies.shop import BY_HEADER, Shop, open_shop
from tests.mutation.twins import without
from tests.unit.engine.driver import header
from tests.unit.engine.producing import metrics

Patch = pytest.MonkeyPatch


@pytest.fixture
def shop(store: Store, store_url: str, ns: str) -> Iterator[Shop]:
    with open_shop(store, store_url, ns) as made:
        yield made


def again_from_the_start(patch: pytest.MonkeyPatch) -> None:
    """Kafka delivers everything again, whatever was committed."""
    start = LogInput.start
    patch.setattr(LogInput, "start", lambda self, topic, number, offset, *more: start(self, topic, number, 0, *more))


def test_136_the_session_is_there_before_the_first_handler_is_called(shop: Shop) -> None:
    shop.order(1)
    shop.run("audit", "book")
    assert [type(session) for session in shop.sessions] == [type(shop.sessions[0])] * 2
    assert shop.sessions[0] is not None
    assert shop.lines() == ["audit 1", "order 1"]


def test_the_id_of_a_row_travels_with_its_message(shop: Shop) -> None:
    shop.order(1, 2)
    shop.crash("after-commit", "book")
    rows = [row.id for row in shop.store.pending(shop.place, 0, 10)]
    shop.run("book")
    assert len(set(rows)) == 2
    assert [header(message, "sluicegate-id") for message in shop.copies()] == rows


def test_201_all_handlers_of_a_message_share_one_session_which_commits_after_the_last(shop: Shop) -> None:
    shop.order(1)
    version = shop.run("book", "audit").worker._owners["in", 0].claim.version
    assert shop.sessions[0] is shop.sessions[1]
    assert shop.lines() == ["audit 1", "order 1"]
    assert (shop.seen().claim.offset, shop.seen().claim.version) == (1, version)


def test_202_when_one_handler_fails_no_change_of_any_is_kept(shop: Shop) -> None:
    shop.fails[2] = 9
    shop.order(1, 2, 3)
    shop.run("book", "audit", attempts=2, times=20)
    assert shop.lines() == ["audit 1", "audit 3", "order 1", "order 3"]
    assert (shop.sent(), shop.dead()) == ([1, 3], ["handler-failed"])


def test_203_a_session_alone_books_twice_what_was_written_twice(shop: Shop) -> None:
    shop.order(7, 7)
    shop.run("book")
    assert (shop.lines(), shop.sent()) == (["order 7", "order 7"], [7, 7])
    shop.order(8, 8)
    shop.run("book", dedupe=BY_HEADER)
    assert (shop.lines(), shop.sent()) == (["order 7", "order 7", "order 8"], [7, 7, 8])


def test_204_each_strategy_has_its_effects_once_when_a_process_dies(shop: Shop) -> None:
    """Shared local transaction, outbox, manual. There is no distributed transaction: what shares none is joined by the
    outbox."""
    for number, (handler, session) in enumerate([("book", True), ("forward", False), ("by_id", False)]):
        shop.order(number)
        shop.crash("before-commit", handler, session=session)
        shop.run(handler, session=session)
    assert shop.sent() == [0, 1, 2]
    assert (shop.lines(), [number for _, number in shop.elsewhere]) == (["order 0"], [2])


def test_205_what_was_consumed_what_is_sent_and_what_is_booked_are_one_transaction(shop: Shop) -> None:
    shop.order(1)
    shop.crash("before-commit", "book")
    assert (shop.lines(), shop.seen().claim.offset, shop.seen().unsent) == ([], 0, 0)
    shop.crash("commit-sent", "book")
    assert (shop.lines(), shop.seen().claim.offset, shop.seen().unsent) == (["order 1"], 1, 1)


def test_206_a_duplicate_is_found_and_has_no_effect(shop: Shop) -> None:
    shop.order(1, 1, 2)
    driver = shop.run("book", dedupe=BY_HEADER)
    assert (shop.called, shop.lines(), shop.sent()) == ([1, 2], ["order 1", "order 2"], [1, 2])
    assert metrics(driver)["records_duplicate"] == 1


def test_207_the_same_handlers_come_to_the_same_books_on_every_store(shop: Shop) -> None:
    """Over a log that is no Kafka: neither the transport nor the store is the handler's business."""
    shop.fails |= {3: 1, 5: 9}
    shop.order(*range(10))
    shop.crash("before-commit", "book", "audit", attempts=3)
    shop.run("book", "audit", attempts=3, times=40)
    kept = [number for number in range(10) if number != 5]
    assert shop.lines() == sorted(f"{what} {number}" for what in ("order", "audit") for number in kept)
    assert (shop.sent(), shop.dead()) == (kept, ["handler-failed"])


def test_208_without_the_session_the_id_of_a_repeated_call_makes_it_harmless(shop: Shop) -> None:
    shop.order(1)
    shop.crash("before-commit", "by_id", session=False)
    shop.run("by_id", session=False)
    assert (shop.called, [number for _, number in shop.elsewhere]) == ([1, 1], [1])


def test_209_a_repeated_call_changes_neither_the_state_nor_the_messages(shop: Shop) -> None:
    shop.order(1, 2)
    shop.crash("before-commit", "by_id", session=False)
    shop.run("by_id", session=False)
    assert shop.called == [1, 2, 1, 2]
    assert ([number for _, number in shop.elsewhere], shop.sent()) == ([1, 2], [1, 2])


def refused_commit(shop: Shop) -> int:
    """The commit never lands; how many messages are there all the same."""
    failpoints.arm({"SLUICEGATE_FAILPOINTS": "before-commit=lost@1"})
    shop.order(1)
    shop.worker("forward", session=False).turns(6)
    assert shop.called == [1]
    return len(shop.copies())


def test_210_nothing_is_sent_before_its_commit(shop: Shop) -> None:
    assert refused_commit(shop) == 0


def test_without_waiting_for_the_commit_there_are_ghost_messages(shop: Shop) -> None:
    with without("output-commit"):
        assert refused_commit(shop) > 0


def test_211_what_was_committed_and_not_sent_is_sent_although_nobody_is_called_again(shop: Shop) -> None:
    shop.order(1)
    shop.crash("after-commit", "book")
    assert (shop.called, shop.sent()) == ([1], [])
    shop.run("book")
    assert (shop.called, shop.sent()) == ([1], [1])


def test_212_what_was_sent_and_not_recorded_is_sent_again_as_an_exact_copy(shop: Shop) -> None:
    shop.order(1)
    shop.crash("acked-not-recorded", "book")
    shop.run("book")
    copies = shop.copies()
    assert len(copies) == 2
    assert (copies[0].k, copies[0].v, copies[0].h) == (copies[1].k, copies[1].v, copies[1].h)
    assert shop.sent() == [1]


def test_213_ids_are_the_same_whoever_calls_and_however_often(shop: Shop) -> None:
    shop.order(1, 2)
    shop.crash("before-commit", "careless", session=False)
    shop.run("careless", session=False)
    expected = [fire_ids(shop.place, shop.log.ids["in"])(offset) for offset in (0, 1)]
    assert [identity for identity, _ in shop.elsewhere] == expected * 2
    assert [header(message, "sluicegate-fire") for message in shop.copies()] == expected


def test_214_a_message_that_is_tried_again_is_not_overtaken_by_the_next(shop: Shop) -> None:
    """What is sent may depend on what was booked before: the order is that of the log, also past failures and
    crashes."""
    shop.fails[2] = 2
    shop.order(1, 2, 3)
    shop.crash("commit-sent", "book", "audit", attempts=5, nth=2)
    shop.run("book", "audit", attempts=5, times=40)
    assert shop.sent() == [1, 2, 3]
    assert shop.lines() == sorted(f"{what} {number}" for what in ("order", "audit") for number in (1, 2, 3))


def test_215_messages_leave_after_the_last_handler_and_in_their_order(shop: Shop) -> None:
    shop.order(1, 2, 3)
    shop.run("book", "audit")
    assert shop.sent_when_called == [0, 0, 0]
    assert shop.sent() == [1, 2, 3]


def test_216_a_repeat_whose_output_was_sent_is_only_passed_over(shop: Shop, monkeypatch: Patch) -> None:
    shop.order(1, 2)
    shop.run("book")
    again_from_the_start(monkeypatch)
    shop.order(3)
    shop.run("book")
    assert (shop.called, shop.lines()) == ([1, 2, 3], ["order 1", "order 2", "order 3"])
    assert [message.v for message in shop.copies()] == [b"1", b"2", b"3"]


def test_225_a_replay_of_the_topic_rebuilds_and_repeats_nothing(shop: Shop, monkeypatch: Patch) -> None:
    """Everything is read again, after a crash in the middle: ids and effects are those of the first time."""
    again_from_the_start(monkeypatch)
    shop.order(1, 2)
    shop.crash("commit-sent", "book")
    shop.run("book")
    shop.order(3)
    shop.run("book")
    assert (shop.lines(), shop.sent(), len(shop.copies())) == (["order 1", "order 2", "order 3"], [1, 2, 3], 3)


def test_243_the_answer_to_a_repeat_is_the_same_as_success(shop: Shop) -> None:
    shop.order(1, 1)
    shop.run("book", dedupe=BY_HEADER)
    assert (shop.seen().claim.offset, shop.dead(), shop.called) == (2, [], [1])


def test_247_messages_say_their_source_and_their_place_in_it(shop: Shop) -> None:
    shop.order(1, 2, 3)
    shop.run("book")
    shards = {header(message, "sluicegate-shard") for message in shop.copies()}
    assert len(shards) == 1
    assert (shards.pop() or "").startswith(f"app/{shop.place.agent}/in/0>out#")
    assert [header(message, "sluicegate-seq") for message in shop.copies()] == ["1", "2", "3"]


def test_248_a_saga_its_message_and_its_reminder_are_saved_together_or_not_at_all(shop: Shop, backend: str) -> None:
    """On a Redis Cluster a reminder may lie on another node than the agent: it is refused, and with it all the rest."""
    shop.fails[1] = 9
    shop.order(1, 2)
    shop.run("saga", attempts=1, times=20)
    reminders = shop.store.timeouts.find(destination=shop.place.agent)
    if backend == "redis-cluster":
        assert (shop.lines(), shop.sent(), shop.dead(), list(reminders)) == ([], [], ["handler-failed"] * 2, [])
        return
    assert (shop.lines(), shop.sent(), shop.dead()) == (["saga 2"], [2], ["handler-failed"])
    assert [timeout.value for timeout in reminders] == [b'{"remind":2}']


def test_249_without_any_strategy_an_effect_elsewhere_happens_twice(shop: Shop) -> None:
    shop.order(1)
    shop.crash("before-commit", "careless", session=False)
    shop.run("careless", session=False)
    assert [number for _, number in shop.elsewhere] == [1, 1]


# -- several in one store ----------------------------------------------------------------------------------------------


def pictures(store: Store, places: list[Partition]) -> list[Any]:
    return [
        (seen(store, place).claim.offset, seen(store, place).unsent, len(seen(store, place).entries))
        for place in places
    ]


def test_217_two_agents_and_two_apps_in_one_store_share_nothing(store: Store, store_url: str, ns: str) -> None:
    """Ids, offsets, what was seen and what is unsent belong to one agent of one app: each books the same orders for
    itself."""
    sent: list[list[Any]] = []
    places = []
    for app, agent in (("app", f"{ns}a"), ("app", f"{ns}b"), (f"{ns}app", f"{ns}a")):
        with open_shop(store, store_url, agent) as shop:
            shop.place = shop.books.partition = Partition(app, agent, "in", 0)
            shop.log.ids["in"] = "one-topic"
            shop.order(1, 1, 2)
            shop.run("book", dedupe=BY_HEADER)
            sent.append([header(message, "sluicegate-id") for message in shop.copies()])
            places.append(shop.place)
            assert shop.sent() == [1, 2]
    assert [offset for offset, _, _ in pictures(store, places)] == [3, 3, 3]
    assert len({identity for ids in sent for identity in ids}) == 6
    assert {place.agent for place in store.partitions(f"{ns}app")} == {f"{ns}a"}


def test_without_the_agent_in_its_place_a_second_one_would_go_on_where_the_first_ended(
    store: Store, store_url: str, ns: str
) -> None:
    """The twin: two agents under one name, and the second finds its orders done."""
    for expected in ([1, 2], []):
        with open_shop(store, store_url, ns) as shop:
            shop.order(1, 2)
            shop.run("book")
            assert shop.sent() == expected
