"""Every limit of one partition: what is refused, what fires early, what memory a group may take."""

import json
from typing import Any, Literal

import pytest

from sluicegate.streams.agent import Aggregation, Reducer
from sluicegate.streams.aggregation import groups as groups_module
from sluicegate.streams.aggregation.accept import accept
from sluicegate.streams.aggregation.durable import changelog as log_module
from sluicegate.streams.aggregation.events import Refused
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.errors import BufferFull
from tests.unit.aggregation import formats
from tests.unit.aggregation.turning import Turned, an_agent, record

ROWS = (Reducer("rows", "collect"),)
FORMATS = "tests.unit.aggregation.formats"


def taken(rule: Aggregation, *records: tuple[bytes | None, bytes], form: str = "json") -> Groups:
    turned = Turned(an_agent(rule, form))
    turned.accept([record(n, *item) for n, item in enumerate(records)], 100.0)
    return turned.groups


def ended(groups: Groups) -> list[tuple[bytes, str, int]]:
    return [(e.key, e.reason, e.count) for e in groups.events if not isinstance(e, Refused)]


def refused(groups: Groups) -> list[tuple[int, str]]:
    return [(e.record.offset(), e.reason) for e in groups.events if isinstance(e, Refused)]


def of(**fields: Any) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def test_a_buffer_full_of_small_groups_fires_as_many_as_a_large_record_needs() -> None:
    rule = Aggregation(compute=ROWS, max_bytes=1000, max_buffered_bytes=1000)
    groups = taken(rule, *[(b"%d" % n, of(s="x" * 90)) for n in range(10)], (b"big", of(s="x" * 900)))
    assert groups.bytes <= 1000
    assert ended(groups) == [(b"%d" % n, "limit", 1) for n in range(10)]


def test_a_record_larger_than_the_whole_buffer_is_refused_and_the_partition_goes_on() -> None:
    groups = taken(
        Aggregation(count=1, compute=ROWS, max_bytes=500, max_buffered_bytes=100),
        (b"a", of(s="x" * 200)),
        (b"a", of(s="")),
    )
    assert refused(groups) == [(0, "too-large")]
    assert ended(groups) == [(b"a", "count", 1)]


@pytest.mark.parametrize("reducer", [Reducer("kinds", "distinct", "s"), Reducer("small", "collect", "s")])
def test_a_group_weighs_what_it_keeps_and_not_the_records_it_came_from(reducer: Reducer) -> None:
    groups = taken(
        Aggregation(count=50, compute=(reducer,), max_bytes=1000), *[(b"a", of(s="v", noise="x" * 100))] * 50
    )
    assert ended(groups) == [(b"a", "count", 50)]


def test_many_different_values_reach_the_limit_of_a_group() -> None:
    rule = Aggregation(compute=(Reducer("kinds", "distinct", "s"),), max_bytes=100)
    groups = taken(rule, *[(b"a", of(s=f"value {n:03}")) for n in range(20)])
    assert ended(groups)[0][1] == "limit"


def test_raw_rows_weigh_what_stands_in_the_result() -> None:
    groups = taken(Aggregation(compute=ROWS, max_bytes=1000), *[(b"a", b"x" * 300)] * 3, form="raw")
    assert [count for _, _, count in ended(groups)] == [2]


def test_a_rule_that_stops_when_full_halts_the_partition() -> None:
    with pytest.raises(BufferFull, match="max_groups 1"):
        taken(Aggregation(on_full="stop", max_groups=1), (b"a", of()), (b"b", of()))


@pytest.mark.parametrize("on_full", ["dead-letter", "stop"])
def test_a_full_group_ends_whatever_the_file_says_of_a_full_partition(on_full: Literal["dead-letter", "stop"]) -> None:
    groups = taken(Aggregation(on_full=on_full, max_items=2, since_first=10.0), *[(b"a", of())] * 4)
    assert refused(groups) == []
    assert ended(groups) == [(b"a", "limit", 2), (b"a", "limit", 2)]
    groups = taken(Aggregation(compute=ROWS, on_full=on_full, max_bytes=1000), *[(b"a", b'"%b"' % (b"x" * 400))] * 3)
    assert refused(groups) == []
    assert ended(groups) == [(b"a", "limit", 2)]


def test_a_key_that_is_too_long_is_refused() -> None:
    groups = taken(
        Aggregation(count=1), (b"k" * (groups_module.LONGEST_KEY + 1), of()), (b"k" * groups_module.LONGEST_KEY, of())
    )
    assert refused(groups) == [(0, "too-large")]
    assert len(ended(groups)) == 1


def test_a_traceparent_that_is_too_long_is_left_out() -> None:
    turned = Turned(an_agent(Aggregation()))
    turned.accept(
        [record(0, b"a", of(), [("traceparent", b"t" * 55)]), record(1, b"b", of(), [("traceparent", b"t" * 10_000)])],
        1.0,
    )
    assert [turned.groups.states[key][5] for key in (b"a", b"b")] == ["t" * 55, None]


def test_headers_that_cannot_be_read_do_not_end_the_loop() -> None:
    class Unreadable(type(record(0, b"", b""))):  # type: ignore[misc]
        def headers(self) -> Any:
            raise SystemError("names that are not text")

    turned = Turned(an_agent(Aggregation()))
    turned.accept([Unreadable("in", 3, 0, b"a", of())], 1.0)
    assert list(turned.groups.states) == [b"a"]


def test_deadlines_of_groups_that_ended_do_not_pile_up() -> None:
    turned = Turned(an_agent(Aggregation(count=2, since_first=86_400.0)))
    for n in range(0, 40_000, 2):
        accept(turned.groups, [record(n, b"a", of()), record(n + 1, b"a", of())], 100.0)
    assert len(turned.groups.heap) <= groups_module.STALE + 10


def test_an_accumulator_that_grows_too_large_refuses_the_record_and_keeps_the_group() -> None:
    rule = Aggregation(count=3, compute=(Reducer("all", "reduce", None, f"{FORMATS}:grows"),), max_bytes=100)
    groups = taken(rule, (b"a", of(n=5)), (b"a", of(n=500)), (b"b", of(n=500)), (b"a", of(n=5)), (b"a", of(n=6)))
    assert refused(groups) == [(1, "too-large"), (2, "too-large")]
    assert ended(groups) == [(b"a", "count", 3)]
    assert not groups.states


def test_a_reducer_that_raises_at_the_first_record_of_a_group_opens_none() -> None:
    rule = Aggregation(count=2, compute=(Reducer("all", "reduce", None, f"{FORMATS}:refuses_odd"), *ROWS))
    turned = Turned(an_agent(rule))
    turned.accept([record(n, b"a", of(n=n)) for n in (1, 2, 3)], 1.0)
    assert refused(turned.groups) == [(1, "reducer"), (3, "reducer")]
    turned.commit(1.0)
    turned.restore()
    assert {key: state[:3] for key, state in turned.groups.states.items()} == {b"a": [1, 2, 2]}
    turned.accept([record(4, b"a", of(n=4))], 1.0)
    turned.commit(1.0)
    assert [(*fire[3:5], fire[7]["all"], fire[7]["rows"]) for fire in turned.fires[b"a"]] == [
        (2, 4, 6, [{"n": 2}, {"n": 4}])
    ]


def test_a_reducer_that_raises_may_be_called_again_and_its_first_call_has_no_effect() -> None:
    """The compiled loop gives the record to the code that takes records with every check."""
    formats.called.clear()
    rule = Aggregation(count=3, compute=(Reducer("all", "reduce", None, f"{FORMATS}:appends_and_refuses_odd"),))
    turned = Turned(an_agent(rule))
    turned.accept([record(n, b"a", of(n=n)) for n in (2, 3, 4, 6)], 1.0)
    assert formats.called == [2, 3, 3, 4, 6]
    assert refused(turned.groups) == [(3, "reducer")]
    turned.commit(1.0)
    assert [fire[7]["all"] for fire in turned.fires[b"a"]] == [[2, 4, 6]]


def test_a_state_too_large_for_an_entry_halts_the_partition_and_not_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_module, "ENTRY_LIMIT", 200)
    turned = Turned(an_agent(Aggregation(compute=(Reducer("s", "last", "s"),))))
    turned.accept([record(0, b"a", of(s="x" * 500))], 1.0)
    with pytest.raises(BufferFull, match="larger than a changelog entry"):
        turned.commit(1.0)


def test_many_senders_are_split_over_entries_and_come_back_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "ENTRY_LIMIT", 400)
    monkeypatch.setattr(log_module, "SLACK", 0)
    turned = Turned(an_agent(Aggregation()))
    for n in range(1, 400):
        turned.senders.note(f"app/a/t/{n % 40}>in#token", n, 100.0)
        if n % 50 == 0:
            turned.accept([record(n, b"a", of())], 100.0)
            turned.commit(100.0)
    assert turned.split > 5
    assert turned.dropped > 5
    turned.commit(100.0)
    turned.restore()
    assert all(turned.senders.note(f"app/a/t/{n % 40}>in#token", n, 100.0) for n in range(1, 400))


def test_one_expiry_fires_groups_of_so_many_bytes_and_says_that_more_are_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups_module, "SLICE_BYTES", 1_000)
    turned = Turned(an_agent(Aggregation(compute=ROWS, since_first=1.0), "json"))
    turned.accept([record(n, b"k%d" % n, of(pad="x" * 290)) for n in range(20)], 100.0)
    groups, sizes = turned.groups, []
    while groups.states:
        before = groups.bytes
        assert groups.expire(200.0, 1_000) > 0
        sizes.append(before - groups.bytes)
        assert groups.behind == bool(groups.states)
    assert len(ended(groups)) == 20
    assert max(sizes) < 1_000 + 2 * 300


def test_groups_that_hold_no_bytes_fire_by_their_number() -> None:
    turned = Turned(an_agent(Aggregation(compute=(Reducer("n", "count"),), since_first=1.0), "json"))
    turned.accept([record(n, b"k%d" % n, b"{}") for n in range(20)], 100.0)
    assert [turned.groups.expire(200.0, 15) for _ in range(3)] == [15, 5, 0]
