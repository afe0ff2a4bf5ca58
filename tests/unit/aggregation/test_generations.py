"""The changelog of a partition with groups of several generations: what was written comes back, each in its own
layout, also after compaction."""

import pytest

from sluicegate.schemas import codec
from sluicegate.streams.agent import Agent, Aggregation, Destination, Reducer
from sluicegate.streams.aggregation.accept import accept
from sluicegate.streams.aggregation.converting import Conversion
from sluicegate.streams.aggregation.durable import changelog
from sluicegate.streams.aggregation.durable.changelog import Changelog
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.reading.receive import ReceivedShards
from tests.unit.aggregation.turning import record


def groups(*compute: Reducer, on_missing: str = "dead-letter") -> Groups:
    rule = Aggregation(compute=compute, on_missing=on_missing)  # type: ignore[arg-type]
    return Groups(Rule(Agent("a", ("in",), rule, Destination("out"), "dead"), codec("json")))


SUM, IDS, KINDS = Reducer("total", "sum", "n"), Reducer("ids", "collect", "n"), Reducer("kinds", "distinct", "n")


def filled(fold: Groups, keys: str, first: int) -> Groups:
    records = [record(first + at, key.encode(), b'{"n": %d}' % at) for at, key in enumerate(keys)]
    accept(fold, records, 1.0)
    return fold


def written(log: Changelog, entries: list[bytes]) -> None:
    blobs, keep = log.entries({}, dict, 1.0)
    entries += blobs
    if keep is not None:
        del entries[: len(entries) - len(log.kept)]


def restored(log: Changelog, entries: list[bytes]) -> tuple[Groups, Groups]:
    older, newest = groups(SUM), groups(IDS, KINDS)
    again = Changelog(newest, log.kept[0][0], generation=2, older={1: older})
    again.replay(entries, log.kept[0][0], log.last, ReceivedShards("in"))
    return older, newest


def test_each_generation_comes_back_with_its_own_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changelog, "SLACK", 500)
    monkeypatch.setattr(changelog, "SLICE", 100)
    older, newest = filled(groups(SUM), "abcde", 0), groups(IDS, KINDS)
    log, entries = Changelog(newest, 1, generation=2, older={1: older}), list[bytes]()
    for turn in range(40):
        filled(newest, "xyzxx", 10 + 5 * turn)
        written(log, entries)
    assert log.kept[0][0] > 1  # compaction dropped the entries that first held the older groups
    again, now = restored(log, entries)
    assert (again.states, again.bags) == (older.states, {})
    assert (now.states, now.bags) == (newest.states, newest.bags)


def test_a_generation_that_is_not_named_any_more_is_passed_over() -> None:
    older, newest = filled(groups(SUM), "ab", 0), filled(groups(IDS, KINDS), "a", 5)
    log, entries = Changelog(newest, 1, generation=2, older={1: older}), list[bytes]()
    written(log, entries)
    only = groups(IDS, KINDS)
    Changelog(only, 1, generation=2).replay(entries, 1, log.last, ReceivedShards("in"))
    assert only.states == newest.states


STATS = (Reducer("a", "first", "n"), SUM, IDS, KINDS, Reducer("z", "last", "n"))


@pytest.mark.parametrize(
    "after",
    [
        (KINDS, IDS),
        (Reducer("renamed", "sum", "n"), Reducer("b", "max", "n"), Reducer("mean", "mean", "n")),
        (Reducer("0", "last", "n"), Reducer("1", "collect", "n"), Reducer("2", "collect", "n"), Reducer("n", "count")),
        (),
    ],
)
def test_converted_groups_are_as_if_the_new_rule_had_filled_them(after: tuple[Reducer, ...]) -> None:
    old, new, expected = filled(groups(*STATS), "abcab", 0), groups(*after), filled(groups(*after), "abcab", 0)
    convert = Conversion(old, new)
    for key in list(old.states):
        convert.move(key)
    assert (new.states, new.bags, new.bytes) == (expected.states, expected.bags, expected.bytes)
    assert not old.states
    for key, state in new.states.items():
        assert new.rule.values(state, new.bags.get(key, [])) == expected.rule.values(
            expected.states[key], expected.bags.get(key, [])
        )


def test_a_field_that_groups_do_not_hold_cannot_be_converted() -> None:
    with pytest.raises(ConfigurationError, match="they do not hold"):
        Conversion(groups(SUM), groups(Reducer("a", "first", "n")))
