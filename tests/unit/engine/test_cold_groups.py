"""Groups that were not touched for a while are rows of the store: what a takeover reads, what a person sees and
changes, and what a change of the rule does with them."""

import json
from dataclasses import replace
from typing import Any

import pytest

from sluicegate.streams.agent import Agent, Aggregation, Emit, Handler, Reducer
from sluicegate.streams.aggregation.durable import changelog, paging
from sluicegate.streams.aggregation.durable.entry import CHECKED, GENERATION, PAGED, STALE, packed_state, unpacked_state
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.contracts.values import Changes, Claim
from sluicegate.streams.engine import worker as engine_worker
from sluicegate.streams.operations import planning
from sluicegate.streams.operations.accepting import accept, preview
from sluicegate.streams.operations.groups.contents import contents_of
from sluicegate.streams.operations.groups.open_groups import open_groups, why
from sluicegate.streams.ownership import beginning, paged
from sluicegate.streams.testing.group import groups as shown_groups
from tests.unit.engine import handlers
from tests.unit.engine.cold_scene import ANNE, KEYS, PLACE, ColdScene
from tests.unit.engine.deployments import deployed
from tests.unit.engine.driver import Driver
from tests.unit.engine.scene import COMPUTE, Killed, a_log, an_agent, dead, feed, totals


def paged_agent(**more: Any) -> Agent:
    return an_agent(**{"hot_groups": 4, "since_first": 600.0, "key": None} | more)


class Scene(ColdScene):
    def __init__(self, agent: Agent | None = None, most: int = 20) -> None:
        super().__init__(agent or paged_agent(), most)

    def open_group(self, key: str, number: int) -> None:
        feed(self.log, (key, number))
        self.driver.turns(2).later(1)

    def feed(self, key: str, amount: int) -> None:
        """A record in turns of its own."""
        feed(self.log, (key, amount))
        self.driver.turns(3).later(1)


def test_the_groups_that_were_not_touched_for_longest_are_cold() -> None:
    scene = Scene()
    assert scene.cold == KEYS[:16]
    assert sorted(scene.owner.groups.newest.states) == [key.encode() for key in KEYS[16:]]
    assert scene.owner.groups.open == 20
    assert totals(scene.log) == []


def test_a_takeover_reads_the_hot_groups_alone() -> None:
    scene = Scene()
    before = list(scene.store.keys(PLACE, None, 100))
    scene.driver = scene.started(scene.agent)
    assert len(scene.owner.groups.newest.states) == 4
    assert scene.owner.groups.open == 20
    assert list(scene.store.keys(PLACE, None, 100)) == before


def test_a_record_of_a_cold_group_is_added_to_it_once() -> None:
    scene = Scene()
    feed(scene.log, ("key-03", 100))
    scene.driver.turns(3)
    assert "key-03" not in scene.cold
    feed(scene.log, ("key-03", 200))
    scene.driver = scene.started(scene.agent)
    assert totals(scene.log) == [("key-03", "count", 3, 303)]


def test_the_row_of_a_group_that_is_hot_again_counts_no_more() -> None:
    """It stays until the group ends, and goes with it, also under an owner that took the partition over since."""
    scene = Scene()
    feed(scene.log, ("key-03", 100), ("key-04", 100))
    scene.driver.turns(3)
    assert {"key-03", "key-04"} <= set(scene.rows) - set(scene.cold)
    feed(scene.log, ("key-03", 200))
    scene.driver.turns(3)
    scene.driver = scene.started(scene.agent)
    feed(scene.log, ("key-04", 200))
    scene.driver.turns(3)
    assert totals(scene.log) == [("key-03", "count", 3, 303), ("key-04", "count", 3, 304)]
    feed(scene.log, *[(key, 1) for key in ("key-03", "key-04")] * 3)
    scene.driver.turns(3)
    assert totals(scene.log)[2:] == [("key-03", "count", 3, 3), ("key-04", "count", 3, 3)]
    assert not {"key-03", "key-04"} & set(scene.rows)


def test_a_deadline_of_a_row_whose_group_goes_on_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(paged_agent(since_first=None, since_last=60.0), most=6)
    scene.driver.later(30)
    feed(scene.log, ("key-00", 0))
    scene.driver.turns(2).later(40).turns(6)
    assert sorted(key for key, *_ in totals(scene.log)) == KEYS[1:6]
    due, asked = scene.store.due, list[Any]()
    monkeypatch.setattr(scene.store, "due", lambda *question: asked.append(question) or due(*question))
    scene.driver.turns(5)
    assert (asked, scene.rows, scene.owner.groups.open) == ([], [], 1)


@pytest.mark.parametrize("ends", ["since_first", "since_last"])
def test_a_group_that_is_hot_again_times_out(ends: str) -> None:
    """Its deadline is in its row alone. With `since_last` the deadline of the row passes first, and the row goes."""
    scene = Scene(paged_agent(**{"since_first": None, ends: 60.0}), most=6)
    scene.driver.later(30)
    scene.feed("key-00", 5)
    at = {"since_first": 60.0 - 37.0, "since_last": 60.0 - 1.0}[ends]
    for seconds, fired in ((at - 2, 0), (4, 1)):
        scene.driver.later(seconds).turns(6)
        assert [total for total in totals(scene.log) if total[0] == "key-00"] == [("key-00", "timeout", 2, 5)] * fired


def test_cold_groups_time_out_without_a_record_and_under_another_owner() -> None:
    scene = Scene()
    scene.driver = scene.started(scene.agent)
    assert 500 < scene.owner.next_due() - scene.owner.now(scene.driver.clock.now) < 600
    for _ in range(20):
        scene.driver.later(60).turns(3)
    assert sorted(key for key, *_ in totals(scene.log)) == KEYS
    assert {reason for _, reason, *_ in totals(scene.log)} == {"timeout"}
    assert (scene.cold, scene.owner.groups.open) == ([], 0)


def test_cold_groups_time_out_without_becoming_hot(monkeypatch: pytest.MonkeyPatch) -> None:
    hot = list[bytes]()
    monkeypatch.setattr(Groups, "reopen", lambda groups, key, *rest: hot.append(key))
    scene = Scene()
    scene.driver.later(1000).turns(4)
    assert sorted(totals(scene.log)) == [(key, "timeout", 1, number) for number, key in enumerate(KEYS)]
    assert (hot, scene.rows) == ([], [])


def test_a_cold_group_whose_first_early_result_is_due_stays_open() -> None:
    scene = Scene(paged_agent(emit=Emit(every=60.0)))
    scene.driver.later(60).turns(8)
    assert sorted(totals(scene.log)) == [(key, "early", 1, number) for number, key in enumerate(KEYS)]
    assert scene.owner.groups.open == 20


def test_a_record_behind_the_timeout_of_its_cold_group_opens_the_next_one() -> None:
    """In the same turn: the row is still in the store. Other cold groups are not due."""
    scene = Scene()
    scene.driver.later(585)
    feed(scene.log, ("key-00", 100))
    scene.driver.turns(4)
    ended = len(totals(scene.log))
    assert 1 < ended < 12
    assert totals(scene.log)[0] == ("key-00", "timeout", 1, 0)
    assert scene.owner.groups.newest.states[b"key-00"][0] == 1
    scene.driver = scene.started(scene.agent)
    assert scene.open_keys() == sorted(["key-00", *KEYS[ended:]])


def test_a_record_does_not_join_a_cold_group_that_waits_to_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each turn ends one group, and then takes records."""
    monkeypatch.setattr(paged, "DUE", 1)
    monkeypatch.setattr(engine_worker, "EXPIRE_SECONDS", -1.0)
    scene = Scene()
    scene.driver.later(1000)
    feed(scene.log, ("key-15", 100))
    scene.driver.turns(60)
    assert sorted(totals(scene.log)) == [(key, "timeout", 1, number) for number, key in enumerate(KEYS)]
    assert scene.open_keys() == ["key-15"]


def test_more_groups_are_due_than_one_expiry_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paged, "DUE", 3)
    scene = Scene()
    scene.driver.later(1000).turns(30)
    assert sorted(key for key, *_ in totals(scene.log)) == KEYS


def waiting_scene(**more: Any) -> Scene:
    """The first call of the handler fails, and the next attempt is a minute later."""
    handlers.reset()
    handlers.fails.update({number: [ValueError()] for number in range(20)})
    handler = Handler(("tests.unit.engine.handlers:result",), attempts=5, backoff_first=60.0, backoff_most=600.0)
    return Scene(replace(paged_agent(**more), handler=handler))


def all_end(scene: Scene) -> bool:
    for _ in range(20):
        scene.driver.later(100).turns(10)
    results = [json.loads(record.value())["sum"] for record in scene.log.order["out"]]
    return sorted(results) == list(range(20)) and scene.rows == []


@pytest.mark.parametrize("large", [False, True])
def test_while_a_handler_is_waited_for_no_more_groups_end_than_a_commit_takes(
    monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    """By their number, and by the bytes of their bags. Without a bound each turn reads the due rows again."""
    monkeypatch.setattr(paged, "DUE", 100 if large else 5)
    monkeypatch.setattr(paging, "SLICE_BYTES", 100 if large else paging.SLICE_BYTES)
    scene = waiting_scene(compute=(*COMPUTE, Reducer("all", "collect"))) if large else waiting_scene()
    assert len(scene.cold) == 16
    reads, due = list[int](), scene.store.due
    monkeypatch.setattr(scene.store, "due", lambda *asked: reads.append(1) or due(*asked))
    cold = scene.owner.groups.cold
    scene.driver.later(1000).turns(100)
    assert scene.owner.waits_for
    assert 0 < len(cold.paging._due) < 16
    assert len(reads) < 10
    assert scene.owner.next_due() > scene.owner.clock.last
    assert all_end(scene)


def test_a_row_that_ended_since_the_last_commit_is_deleted_once() -> None:
    """Groups time out one after the other, while the handler of the first one is waited for."""
    scene = waiting_scene()
    scene.driver.later(570)
    for _ in range(30):
        scene.driver.later(1).turns(3)
    keys = [row.key for row in scene.owner.groups.cold.paging._due]
    assert len(keys) == len(set(keys)) > 3
    assert all_end(scene)


def test_compaction_keeps_what_is_known_of_cold_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changelog, "SLACK", 100)
    monkeypatch.setattr(changelog, "SLICE", 50)
    scene = Scene()
    for number in range(60):
        feed(scene.log, (KEYS[19], number))
        scene.driver.turns(2)
    assert scene.view.claim.first > 30
    scene.driver = scene.started(scene.agent)
    assert scene.owner.groups.open == len(scene.cold) + len(scene.owner.groups.newest.states)
    feed(scene.log, ("key-00", 1), ("key-00", 1))
    scene.driver.turns(3)
    assert ("key-00", "count", 3, 2) in totals(scene.log)


def test_a_program_that_knows_no_cold_groups_halts() -> None:
    """It reads CHECKED, GENERATION, and then PLAIN or LZ4."""
    marked = [blob[5:].removeprefix(GENERATION)[:1] for blob in Scene().view.entries if blob[:1] == CHECKED]
    assert PAGED in marked
    scene = Scene()
    feed(scene.log, ("key-00", 1))
    scene.driver.turns(3)
    assert scene.view.entries[-1][5:6] == STALE


@pytest.mark.parametrize("number", [0, -(2**63), 2**64, -(10**30)])
def test_a_row_keeps_any_sum(number: int) -> None:
    state = [1, 2, 3, 4.5, None, "00-trace", 0, number, None]
    assert unpacked_state(packed_state(state)) == state


def test_a_damaged_row_halts_the_partition() -> None:
    scene = Scene()
    row = scene.store._rows[PLACE].cold.groups[b"key-00"]
    scene.store._rows[PLACE].cold.groups[b"key-00"] = row._replace(state=row.state[:-1] + b"\x01")
    feed(scene.log, ("key-00", 1))
    scene.driver.turns(3)
    report = scene.driver.worker.reports.of(scene.driver.clock.now)
    assert [partition.error for partition in report.partitions] == ["changelog-incomplete"]


def test_a_row_that_is_missing_halts_the_partition_when_all_are_read() -> None:
    scene = Scene()
    scene.store._rows[PLACE].cold.apply([], [b"key-00"])
    scene.driver = scene.started(paged_agent(compute=(Reducer("n", "count"),)), on_rule_change="flush")
    report = scene.driver.worker.reports.of(scene.driver.clock.now)
    assert [partition.error for partition in report.partitions] == ["changelog-incomplete"]
    assert "1 rows of cold groups are missing" in str(report.partitions[0].detail)


# -- a change of the rule ----------------------------------------------------------------------------------------------


def test_a_lower_count_ends_cold_groups_before_the_next_record() -> None:
    scene = Scene(paged_agent(count=5))
    feed(scene.log, ("key-00", 1))
    scene.driver.turns(2).later(1)
    for key in KEYS[10:16]:
        feed(scene.log, (key, 1))
        scene.driver.turns(2).later(1)
    assert "key-00" in scene.cold
    scene.driver = scene.started(paged_agent(count=2))
    assert sorted(key for key, *_ in totals(scene.log)) == sorted(["key-00", *KEYS[10:16]])


def test_groups_that_end_by_a_lower_count_stay_hot_until_they_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hot and cold ones, in commits of two, by an owner that keeps fewer of them hot."""
    monkeypatch.setattr(beginning, "SLICE", 2)
    scene = Scene(paged_agent(count=5, hot_groups=10))
    for number, key in enumerate(KEYS):
        feed(scene.log, (key, number))
        scene.driver.turns(2).later(1)
    assert len(scene.cold) == 10
    scene.driver = scene.started(paged_agent(count=2, hot_groups=1)).turns(4)
    assert sorted(totals(scene.log)) == [(key, "count", 2, 2 * number) for number, key in enumerate(KEYS)]
    assert scene.owner.groups.open == 0


@pytest.mark.parametrize("hot", [4, 10])
def test_a_shorter_timeout_counts_for_cold_groups(hot: int) -> None:
    scene = Scene()
    scene.driver = scene.started(paged_agent(since_first=60.0, hot_groups=hot))
    assert len(scene.cold) == 20 - hot
    for _ in range(8):
        scene.driver.later(10).turns(3)
    assert sorted(key for key, *_ in totals(scene.log)) == KEYS


@pytest.mark.parametrize("commits", [1, 4])
def test_a_timeout_that_comes_back_counts_for_rows_that_a_killed_owner_wrote_with_another(
    commits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner with the longer timeout writes a page of rows in each commit, and dies between two of them."""
    monkeypatch.setattr(paged, "PAGE", 3)
    scene = Scene()
    commit, written = scene.store.commit, list[Any]()

    def dying(claim: Claim, changes: Changes) -> Claim:
        if len(written) == commits:
            raise Killed
        written.append(changes.put_cold)
        return commit(claim, changes)

    with monkeypatch.context() as patch:
        patch.setattr(scene.store, "commit", dying)
        with pytest.raises(Killed):
            scene.started(paged_agent(since_first=6000.0))
    assert any(written)
    scene.driver = scene.started(scene.agent)
    for _ in range(11):
        scene.driver.later(60).turns(3)
    assert sorted(key for key, *_ in totals(scene.log)) == KEYS


def test_a_group_with_records_behind_its_last_early_result_has_another_one_by_the_clock() -> None:
    """The rule before sent early results by the number of records. It is the same for hot and cold groups."""
    scene = Scene(paged_agent(count=9, emit=Emit(count=2)))
    for key in KEYS:
        feed(scene.log, (key, 1), (key, 1))
        scene.driver.turns(2)
    assert (len(totals(scene.log)), len(scene.cold)) == (20, 16)
    scene.driver = scene.started(paged_agent(count=9, emit=Emit(every=60.0)))
    scene.driver.later(60).turns(8)
    assert sorted(totals(scene.log)[20:]) == [(key, "early", 3, number + 2) for number, key in enumerate(KEYS)]


@pytest.mark.parametrize("claims", [False, True])
def test_a_store_clock_that_was_ahead_does_not_delay_cold_groups(claims: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under the same claim, and under the next one."""
    monkeypatch.setattr(paged, "PAGE", 3)
    scene = Scene(most=0)
    right = scene.store._clock
    scene.store._clock = lambda: right() + 3600.0
    for number, key in enumerate(KEYS):
        feed(scene.log, (key, number))
        scene.driver.turns(2).later(1)
    assert len(scene.cold) == 16
    scene.store._clock = right
    owner = scene.owner
    if claims:
        scene.driver = scene.started(scene.agent)
    for _ in range(16):
        scene.driver.later(60).turns(4)
    assert sorted(key for key, *_ in totals(scene.log)) == KEYS
    assert (scene.owner is owner) is not claims


@pytest.mark.parametrize("policy", ["finish", "convert", "flush", "drop"])
def test_cold_groups_go_with_the_others_when_the_rule_changes(policy: str) -> None:
    scene = Scene(most=0)
    old = paged_agent()
    new = replace(old, aggregation=replace(old.aggregation or Aggregation(), compute=(Reducer("n", "count"),)))
    new = replace(old, aggregation=replace(old.aggregation or Aggregation(), count=2)) if policy == "convert" else new
    scene.driver = scene.started(old, deployed=deployed((old, "")))
    for number, key in enumerate(KEYS):
        feed(scene.log, (key, number))
        scene.driver.turns(2).later(1)
    scene.driver = scene.started(new, deployed=deployed((old, ""), (new, policy)))
    assert (scene.rows == []) == (policy != "convert")
    feed(scene.log, *[(key, 1) for key in KEYS], *[(key, 1) for key in KEYS])
    scene.driver.turns(20)
    counts = sorted((reason, count) for _, reason, count, _ in totals(scene.log))
    wanted = {"finish": [("count", 3)] * 20, "convert": [("count", 2)] * 20, "flush": [("manual", 1)] * 20, "drop": []}
    assert counts == wanted[policy]
    assert scene.owner.groups.open == {"finish": 0, "convert": 20}.get(policy, 20)


# -- limits ------------------------------------------------------------------------------------------------------------


def test_cold_groups_count_for_max_groups_and_make_room_first() -> None:
    scene = Scene(paged_agent(max_groups=20))
    feed(scene.log, ("new-1", 1), ("new-2", 2))
    scene.driver.turns(3)
    assert sorted(totals(scene.log)) == [("key-00", "limit", 1, 0), ("key-01", "limit", 1, 1)]
    assert scene.owner.groups.open == 20


def test_groups_that_may_make_room_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(paged_agent(max_groups=20, hot_groups=12))
    due, most = scene.store.due, list[int]()
    monkeypatch.setattr(scene.store, "due", lambda place, until, limit: most.append(limit) or due(place, until, limit))
    for key in KEYS[7:4:-1]:
        feed(scene.log, (key, 1))
        scene.driver.turns(3)
    assert set(most) == {1}


def test_a_record_of_a_new_group_is_refused_where_cold_groups_reach_the_limit() -> None:
    scene = Scene(paged_agent(max_groups=20, on_full="dead-letter"))
    feed(scene.log, ("new", 1), ("key-05", 2))
    scene.driver.turns(3)
    assert dead(scene.log) == [("20", "limit")]
    assert scene.owner.groups.open == 20


def test_a_group_is_not_opened_before_the_store_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that could not be read when the store was asked, and then can."""
    scene = Scene()
    monkeypatch.setattr(paged, "names_of", lambda groups, records: (set(), len(records)))
    feed(scene.log, ("key-00", 100))
    scene.driver.turns(2)
    assert ("in", 0) not in scene.driver.worker._owners
    monkeypatch.undo()
    scene.driver.later(60).turns(4)
    assert scene.owner.groups.newest.states[b"key-00"][0] == 2


# -- operators ---------------------------------------------------------------------------------------------------------


def test_commands_list_hot_and_cold_groups() -> None:
    scene = Scene()
    assert scene.open_keys() == KEYS
    [group] = open_groups(scene.store, "app", scene.agent, b"key-02")
    assert (group.values, group.records, group.first) == ({"total": 2}, 1, 2)
    assert "1 of 3" in why(group, scene.agent)
    assert sorted(str(group.key) for group in shown_groups(scene.agent, scene.view, scene.store)) == KEYS


@pytest.mark.parametrize("key", ["key-02", "key-19"])
def test_a_person_fires_a_group_whether_it_is_cold_or_hot(key: str) -> None:
    scene = Scene()
    scene.fire(key)
    assert [(key, reason) for key, reason, *_ in totals(scene.log)] == [(key, "manual")]
    assert scene.owner.groups.open == 19


@pytest.mark.parametrize("key", ["key-02", "key-19", "key-05"])
def test_a_person_drops_a_group_whether_it_is_cold_or_hot(key: str) -> None:
    """The last one has a row and is hot."""
    scene = Scene()
    feed(scene.log, ("key-05", 1))
    scene.driver.turns(3)
    scene.drop(key)
    scene.claimed_again()
    assert scene.owner.groups.open == 19
    feed(scene.log, *[(key, 1)] * 3)
    scene.driver.turns(4)
    assert totals(scene.log) == [(key, "count", 3, 3)]


def test_a_plan_counts_cold_groups_and_those_that_end() -> None:
    scene = Scene()
    old = scene.agent
    new = replace(old, aggregation=replace(old.aggregation or Aggregation(), count=1))
    holding = planning._holding(scene.store, "app", old, new, ["in"])
    assert (holding.groups, holding.fire) == (20, 20)


def test_an_accepted_gap_forgets_cold_groups_whose_offsets_come_again() -> None:
    scene = Scene()
    log = a_log()
    feed(log, *[(key, 1) for key in KEYS[:10]])
    scene.log = log
    facts = lambda: Driver(scene.agent, scene.store, log, scene.clock).input.facts("in", 0)  # noqa: E731
    gap = preview(scene.store, scene.agent, PLACE, facts)
    assert gap is not None
    forgotten = len(gap.forgets.groups)
    accept(scene.store, scene.agent, PLACE, facts, ANNE, forget=True)
    assert (forgotten, scene.open_keys()) == (10, KEYS[:10])
    assert contents_of(scene.agent, PLACE, scene.view).groups.cold.count == len(scene.cold)


def test_an_accepted_gap_forgets_the_row_of_a_hot_group() -> None:
    scene = Scene()
    feed(scene.log, ("key-15", 1))
    scene.driver.turns(3)
    assert "key-15" in set(scene.rows) - set(scene.cold)
    log = a_log()
    feed(log, *[(key, 1) for key in KEYS[:10]])
    facts = lambda: Driver(scene.agent, scene.store, log, scene.clock).input.facts("in", 0)  # noqa: E731
    accept(scene.store, scene.agent, PLACE, facts, ANNE, forget=True)
    assert (scene.open_keys(), scene.rows) == (KEYS[:10], scene.cold)


def test_a_gap_that_forgets_the_state_leaves_no_cold_group() -> None:
    scene = Scene()
    row = scene.store._rows[PLACE]
    row.entries[row.claim.last] = b"damaged"
    facts = lambda: scene.driver.input.facts("in", 0)  # noqa: E731
    accept(scene.store, scene.agent, PLACE, facts, ANNE, forget=True)
    assert (scene.cold, scene.open_keys()) == ([], [])
