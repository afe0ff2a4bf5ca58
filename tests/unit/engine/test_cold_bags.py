"""Groups that keep what they collect, as rows of the store: what they keep comes back as it was."""

import json
import random
from typing import Any

import pytest

from sluicegate.schemas import json as json_codec
from sluicegate.streams import formats
from sluicegate.streams.agent import Emit, Reducer
from sluicegate.streams.aggregation.accept import accept
from sluicegate.streams.aggregation.durable import paging
from sluicegate.streams.aggregation.durable.entry import framed, packed_state, unpacked_state
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.layout import BYTES
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.values import Changes, Claim
from sluicegate.streams.operations.groups.open_groups import open_groups
from sluicegate.streams.ownership import paged
from tests.unit.aggregation.turning import record
from tests.unit.engine.deployments import deployed
from tests.unit.engine.driver import Driver, ManualClock, memory
from tests.unit.engine.scene import a_log, an_agent, dead, distinct, feed, shown
from tests.unit.engine.test_cold_groups import KEYS, PLACE, Scene, paged_agent

BAGS = (
    Reducer("all", "collect"),
    Reducer("numbers", "collect", "n"),
    Reducer("different", "distinct", "n"),
    Reducer("by", "count_by", "s"),
    Reducer("some", "first_n", "n", option=2),
    Reducer("newest", "last_n", "n", option=2),
    Reducer("median", "percentile", "n", option=50),
    Reducer("about", "approx_distinct", "n"),
    Reducer("best", "top", "s", option=3),
)
NUMBERS = (Reducer("all", "collect", "amount"),)


def collecting(**more: Any) -> Any:
    return paged_agent(**{"compute": NUMBERS} | more)


def results(log: Any) -> list[dict[str, Any]]:
    return [json.loads(message.v or b"null") for message in distinct(log, "out")]


def lists(log: Any) -> list[tuple[str, str, list[int]]]:
    return [(result["key"], result["reason"], result["all"]) for result in results(log)]


# -- what comes back ---------------------------------------------------------------------------------------------------


def test_a_cold_group_keeps_its_items_and_a_takeover_reads_the_hot_groups_alone() -> None:
    scene = Scene(collecting())
    assert (scene.cold, len(scene.owner.groups.newest.states)) == (KEYS[:16], 4)
    scene.driver = scene.started(scene.agent)
    assert len(scene.owner.groups.newest.bags) == 4
    for amount in (100, 200):
        scene.feed("key-03", amount)
        scene.driver = scene.started(scene.agent)
    assert lists(scene.log) == [("key-03", "count", [3, 100, 200])]


def in_memory(agent: Any, values: list[Any]) -> dict[str, Any]:
    """What one group of these records has, that was never evicted."""
    groups = Groups(Rule(agent, formats.reads(agent)))
    accept(groups, [record(number, b"k", json.dumps(value).encode()) for number, value in enumerate(values)], 0.0)
    made: dict[str, Any] = json_codec.decode_any(
        json_codec.encode(groups.rule.values(groups.states[b"k"], groups.bags[b"k"]))
    )
    return made


@pytest.mark.parametrize("seed", range(6))
def test_each_record_is_in_one_result_and_results_are_those_of_groups_in_memory(seed: int) -> None:
    """Of a random log, with owners that die."""
    chance, clock, log = random.Random(seed), ManualClock(), a_log()
    agent, store = an_agent(count=7, since_first=600.0, compute=BAGS, hot_groups=2), memory(clock)
    driver = Driver(agent, store, log, clock).give(0).turns(4)
    for number in range(120):
        value = {"n": chance.choice([number, number / 3, 10**25 + number]), "s": chance.choice("abcd"), "id": number}
        log.append("in", 0, b"key-%d" % chance.randrange(12), json.dumps(value).encode())
        if number % chance.randint(1, 4) == 0:
            driver.turns(2)
        if chance.random() < 0.1:
            driver = Driver(agent, store, log, clock).give(0).turns(4)
        if chance.random() < 0.05:
            driver.later(200).turns(4)
    for _ in range(5):
        driver.later(1000).turns(8)
    endless = an_agent(count=None, compute=BAGS)
    ids = [item["id"] for result in results(log) for item in result["all"]]
    assert sorted(ids) == list(range(120))
    for result in results(log):
        assert {bag.name: result[bag.name] for bag in BAGS} == in_memory(endless, result["all"])


def test_items_of_an_earlier_eviction_do_not_count_twice() -> None:
    """A group that is evicted, hot again, evicted again, and then read by another owner."""
    scene = Scene(collecting(count=5))
    for amount in (100, 200):
        scene.feed("key-03", amount)
        for key in KEYS[10:18]:
            scene.feed(key, amount)
        assert "key-03" in scene.cold
        scene.driver = scene.started(scene.agent)
    scene.feed("key-03", 300)
    scene.feed("key-03", 400)
    assert lists(scene.log) == [("key-03", "count", [3, 100, 200, 300, 400])]


def test_a_cold_group_times_out_with_its_items_and_its_early_results_are_known() -> None:
    scene = Scene(collecting(emit=Emit(count=1)))
    early = len(results(scene.log))
    assert early == 20
    scene.driver = scene.started(scene.agent)
    for _ in range(20):
        scene.driver.later(60).turns(3)
    last = results(scene.log)[early:]
    assert sorted((result["key"], result["all"], result["revision"]) for result in last) == [
        (key, [number], 2) for number, key in enumerate(KEYS)
    ]


def test_cold_groups_with_many_bytes_time_out_in_several_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "SLICE_BYTES", 3)
    scene = Scene(collecting())
    commit, sizes = scene.store.commit, list[int]()

    def counting(claim: Claim, changes: Changes) -> Claim:
        sizes.append(len(changes.outbox))
        return commit(claim, changes)

    monkeypatch.setattr(scene.store, "commit", counting)
    scene.driver.later(1000).turns(20)
    assert sorted(lists(scene.log)) == [(key, "timeout", [number]) for number, key in enumerate(KEYS)]
    assert 1 < max(sizes) < 10


@pytest.mark.parametrize("policy", ["finish", "convert", "flush"])
def test_items_go_with_the_groups_when_the_rule_changes(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paged, "PAGE_OF_BAGS", 3)
    old, scene = collecting(), Scene(most=0)
    new = collecting(count=2) if policy == "convert" else collecting(compute=(*NUMBERS, Reducer("n", "count")))
    scene.driver = scene.started(old, deployed=deployed((old, "")))
    for number, key in enumerate(KEYS):
        scene.feed(key, number)
    scene.driver = scene.started(new, deployed=deployed((old, ""), (new, policy))).turns(20)
    for key in KEYS * (1 if policy == "convert" else 2):
        scene.feed(key, 99)
    wanted = {"finish": ("count", [99, 99]), "convert": ("count", [99]), "flush": ("manual", [])}[policy]
    outputs = sorted((key, reason, items) for key, reason, items in lists(scene.log) if reason == wanted[0])
    assert outputs == [(key, wanted[0], [number, *wanted[1]]) for number, key in enumerate(KEYS)]


def test_commands_show_the_items_of_cold_groups() -> None:
    scene = Scene(collecting())
    [group] = open_groups(scene.store, "app", scene.agent, b"key-02")
    assert (group.values, group.records) == ({"all": [2]}, 1)


# -- rows --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [3, 3_000])
def test_a_row_with_items_is_compressed_if_it_is_long(size: int) -> None:
    state = [1, 2, 3, 4.5, None, None, 0, [[b"x" * size, 10**30], [["y", 7]]]]
    row = packed_state(state, compress=True)
    assert unpacked_state(row) == state
    assert len(row) < 100 + size // 10


BROKEN = {
    "no items": lambda state: state[:-1],
    "a bag less": lambda state: [*state[:-1], []],
    "a bag more": lambda state: [*state[:-1], [[1], [1]]],
    "no list": lambda state: [*state[:-1], 7],
    "a bag that is no list": lambda state: [*state[:-1], [7]],
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_row_without_the_bags_of_the_rule_halts_the_partition(name: str) -> None:
    scene = Scene(collecting())
    groups = scene.store._rows[PLACE].cold.groups
    row = groups[b"key-00"]
    groups[b"key-00"] = row._replace(state=packed_state(BROKEN[name](unpacked_state(row.state))))
    scene.feed("key-00", 1)
    assert shown(scene.driver)[1]["in", 0][1] == "changelog-incomplete"


def test_a_row_whose_compressed_content_is_damaged_halts_the_partition() -> None:
    scene = Scene(collecting())
    groups = scene.store._rows[PLACE].cold.groups
    groups[b"key-00"] = groups[b"key-00"]._replace(state=framed(b"\x01no frame of lz4"))
    scene.feed("key-00", 1)
    assert shown(scene.driver)[1]["in", 0][1] == "changelog-incomplete"


# -- bytes -------------------------------------------------------------------------------------------------------------


def test_a_group_with_more_bytes_than_a_row_may_have_stays_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "ROW_BYTES", 10)
    scene = Scene(collecting(), most=0)
    for number, key in enumerate(KEYS):
        scene.feed(key, number if number % 5 else 10**15)
    assert scene.cold == [key for number, key in enumerate(KEYS[:19]) if number % 5]


def test_groups_become_rows_when_bags_have_half_of_max_buffered_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without that, the partition would be full, and `on_full` would end groups early."""
    monkeypatch.setattr(paging, "PART", 4)
    scene = Scene(collecting(hot_groups=19, max_bytes=200, max_buffered_bytes=200), most=0)
    for number, key in enumerate(KEYS):
        scene.feed(key, 10**19 + number)
        assert scene.owner.groups.newest.bytes <= 100 + 20
    assert scene.owner.groups.open == 20
    assert (lists(scene.log), dead(scene.log)) == ([], [])
    assert len(scene.cold) >= 14


def test_bytes_of_bags_evict_nothing_without_hot_groups() -> None:
    scene = Scene(collecting(hot_groups=1_000_000, max_bytes=200, max_buffered_bytes=200), most=0)
    for number, key in enumerate(KEYS):
        scene.feed(key, 10**19 + number)
    assert scene.rows == []
    assert [reason for _, reason, _ in lists(scene.log)] == ["limit"] * 10


def test_the_oldest_group_in_memory_makes_room_for_bytes_because_cold_groups_have_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(paging, "PART", 4)
    scene = Scene(collecting(hot_groups=4, max_bytes=200, max_buffered_bytes=200), most=0)
    for number, key in enumerate(KEYS[:10]):
        scene.feed(key, 10**19 + number)
    cold, hot = scene.cold, [key.decode() for key in scene.owner.groups.newest.states]
    assert cold == KEYS[:6]
    feed(scene.log, *((key, 10**19) for key in KEYS[10:]))
    scene.driver.turns(3)
    fired = lists(scene.log)
    assert [(key, reason) for key, reason, _ in fired] == [(key, "limit") for key in [*hot, *KEYS[10:]][: len(fired)]]
    assert fired
    assert {*cold} <= {*scene.cold}


def test_a_commit_evicts_a_slice_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """And twice what its own groups have, so that memory does not grow while other groups come."""
    monkeypatch.setattr(paging, "SLICE_BYTES", 60)
    scene = Scene(collecting(hot_groups=1_000_000, max_groups=1_000_000), most=0)
    for number, key in enumerate(KEYS):
        scene.feed(key, 10**19 + number)
    scene.driver = scene.started(collecting(hot_groups=1))
    counts = []
    for number in range(3):
        scene.feed("key-19", number)
        counts.append(len(scene.rows))
    assert counts == [3, 6, 9]
    assert scene.owner.groups.newest.bytes == sum(state[BYTES] for state in scene.owner.groups.newest.states.values())
