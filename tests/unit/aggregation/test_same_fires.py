"""However the input is cut into batches and wherever the process dies, the same groups fire with the same ids and
values."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluicegate.streams.agent import Aggregation
from sluicegate.streams.aggregation import groups as groups_module
from sluicegate.streams.aggregation.durable import changelog as log_module
from sluicegate.streams.aggregation.durable.changelog import Changelog
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.layout import FIRST
from sluicegate.streams.errors import ChangelogIncomplete
from tests.unit.aggregation import timelines as t
from tests.unit.aggregation.oracle import fire_id
from tests.unit.aggregation.turning import PLACE, TOPIC_ID, Turned

choices = st.lists(st.integers(0, 3), max_size=120)


@pytest.fixture(autouse=True, scope="module")
def small() -> Iterator[None]:
    """A log that compacts and splits all the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_module, "SLACK", 150)
        patch.setattr(log_module, "SLICE", 60)
        patch.setattr(log_module, "GROWTH", 1)
        patch.setattr(log_module, "ENTRY_LIMIT", 1500)
        patch.setattr(groups_module, "STALE", 3)
        yield


def differences(turned: Turned, oracle: Any) -> list[str]:
    """What a person would be told; empty when both say the same."""
    problems = []
    for key in sorted({*turned.fires, *oracle.fires}):
        wanted = [(fire_id(PLACE, TOPIC_ID, fire[2]), *fire) for fire in oracle.fires.get(key, [])]
        got = turned.fires.get(key, [])
        problems += [
            f"{key!r}: {one} instead of {other}"
            for one, other in zip(got, wanted, strict=False)
            if exact(one) != exact(other)
        ]
        if len(got) != len(wanted):
            problems.append(f"{key!r}: {len(got)} fires instead of {len(wanted)}")
    if turned.refused != oracle.refused:
        problems.append(f"refused {turned.refused} instead of {oracle.refused}")
    if {key: len(group.records) for key, group in oracle.groups.items()} != {
        key: state[0] for key, state in turned.groups.states.items()
    }:
        problems.append("other groups are open at the end")
    return problems


def exact(fire: tuple[Any, ...]) -> str:
    """1 and 1.0 and True are not the same result."""
    return json.dumps(fire, sort_keys=True)


@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(t.rules(), t.timelines(), choices)
def test_any_cut_into_batches_and_any_crashes_give_the_same_fires(
    rule: Aggregation, timeline: list[t.Step], cuts: list[int]
) -> None:
    agent = t.an_agent(rule)
    assert differences(t.run(agent, timeline, cuts), t.expected(agent, timeline)) == []


@settings(max_examples=60, deadline=None, derandomize=True)
@given(t.rules(), t.timelines(), choices)
def test_a_format_of_the_users_own_gives_the_same_fires(
    rule: Aggregation, timeline: list[t.Step], cuts: list[int]
) -> None:
    mirrored = [step if step.record is None else t.Step(step.now, mirror(step.record)) for step in timeline]
    agent = t.an_agent(rule, t.BACKWARDS)
    loads = lambda value: json.loads(value[::-1])  # noqa: E731
    assert differences(t.run(agent, mirrored, cuts), t.expected(agent, mirrored, loads=loads, shown=loads)) == []


def mirror(taken: tuple[bytes | None, bytes | None]) -> tuple[bytes | None, bytes | None]:
    key, value = taken
    return key, None if value is None else value[::-1]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(t.rules(), t.timelines(), choices)
def test_raw_records_give_the_same_fires(rule: Aggregation, timeline: list[t.Step], cuts: list[int]) -> None:
    compute = tuple(r for r in rule.compute if r.kind == "count" or (r.kind == "collect" and r.field is None))
    plain = {"key": None, "until": None, "compute": compute, "max_bytes": 900_000}
    raw = Aggregation(**{name: getattr(rule, name) for name in rule.__dataclass_fields__} | plain)
    agent = t.an_agent(raw, "raw")
    shown = lambda value: base64.b64encode(value).decode()  # noqa: E731
    oracle = t.expected(agent, timeline, loads=lambda value: value, shown=shown, fields=False)
    assert differences(t.run(agent, timeline, cuts), oracle) == []


COMPUTE = tuple(r for r in t.POOL if r.name in ("sum", "mean", "first", "last", "kinds", "texts", "width", "most"))
LONG = Aggregation(count=40, since_first=200.0, compute=COMPUTE)
CUTS = [2, 0, 1, 2, 1, 2, 3, 1, 2, 2] * 300


def checked(new: Any = Turned) -> tuple[list[str], Turned | None]:
    """The verdict over a long run that compacts, splits and crashes; a restore that is refused is a verdict, too."""
    agent, timeline = t.an_agent(LONG), t.long_timeline(7, 1500)
    try:
        turned = t.run(agent, timeline, CUTS, new)
    except ChangelogIncomplete as error:
        return [str(error)], None
    return differences(turned, t.expected(agent, timeline)), turned


def test_a_long_run_that_compacts_splits_and_crashes_gives_the_same_fires(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "ENTRY_LIMIT", 400)
    report, turned = checked()
    assert report == []
    assert turned is not None
    assert turned.dropped > 100
    assert turned.split > 5
    assert turned.first > 100


def test_without_the_bags_of_old_groups_in_a_cycle_the_check_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    refresh = Changelog._refresh

    def forgetful(self: Changelog, parts: Any, entry: Any) -> bool:
        done = refresh(self, parts, entry)
        entry.whole.clear()
        return done

    monkeypatch.setattr(Changelog, "_refresh", forgetful)
    assert checked()[0]


def test_with_one_entry_dropped_too_many_the_check_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    forget = Changelog._forget
    monkeypatch.setattr(Changelog, "_forget", lambda self, boundary: forget(self, boundary + 1))
    assert checked()[0]


def test_without_a_new_group_emptying_the_bags_of_the_one_before_the_check_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    apply = log_module._apply

    def unaware(groups: Groups, entry: Any) -> None:
        for key, state in entry.states.items():
            if state is not None and key in groups.states:
                groups.states[key][FIRST] = state[FIRST]
        apply(groups, entry)

    monkeypatch.setattr(log_module, "_apply", unaware)
    assert checked()[0]


def test_without_deadlines_after_a_restore_the_check_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Groups, "rearm", lambda self: None)
    assert checked()[0]


def test_when_a_crash_keeps_what_was_not_committed_the_check_fails() -> None:
    class Keeping(Turned):
        def restore(self) -> None:
            if not hasattr(self, "groups"):
                super().restore()

    assert checked(Keeping)[0]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_a_removed_entry_is_refused(data: st.DataObject) -> None:
    turned = t.run(t.an_agent(LONG), t.long_timeline(data.draw(st.integers(0, 50)), 60), [2] * 60)
    del turned.log[data.draw(st.sampled_from(sorted(turned.log)))]
    with pytest.raises(ChangelogIncomplete, match="missing"):
        turned.restore()
