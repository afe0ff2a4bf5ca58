"""However a log is cut into batches, and wherever the process dies, groups have the same early results: compared with
naive oracles over 1,000 random logs of each kind."""

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from sluicegate.schemas import codec
from sluicegate.streams.agent import Agent, Aggregation, Destination, Emit, Reducer, Window
from sluicegate.streams.aggregation.accept import accept
from sluicegate.streams.aggregation.durable.changelog import Changelog
from sluicegate.streams.aggregation.early import EarlyResults
from sluicegate.streams.aggregation.events import EARLY, MERGED, Fire
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.reading.receive import ReceivedShards
from tests.unit.windows.oracle import Step
from tests.unit.windows.test_same_sessions import a_session, crowded
from tests.unit.windows.test_same_windows import a_log, a_window, expected, played
from tests.unit.windows.turning import Turned, record

LOGS, PARTS = 1_000, 4
COMPUTE = (Reducer("offsets", "collect", "amount"), Reducer("tens", "max", "amount"))
PLAIN = Window(1.0)  # not used: these groups have no windows

pytestmark = pytest.mark.usefixtures("small")


class TurnedGroups(Turned):
    """Without windows."""

    def restore(self) -> None:
        rule = Aggregation(**{"compute": COMPUTE, **self.more})
        self.groups = Groups(Rule(Agent("sums", ("in",), rule, Destination("out"), "dead"), codec("json")))  # type: ignore[assignment]
        self.senders = ReceivedShards("in")
        self.changelog = Changelog(self.groups, self.first)
        kept = [self.log[number] for number in sorted(self.log) if self.first <= number <= self.last]
        self.changelog.replay(kept, self.first, self.last, self.senders)

    def take(self, first: int, steps: list[Step]) -> None:  # type: ignore[override]
        accept(self.groups, [record(first + i, step.key, 0, step.amount) for i, step in enumerate(steps)], steps[0].now)

    def look(self, now: float) -> None:
        while self.groups.expire(now, 2):
            pass


def numbered(steps: list[Step], chance: random.Random) -> list[Step]:
    """Each at a moment of its own. The amount is the offset. There are many looks at the clock."""
    made: list[Step] = []
    for step in steps:
        made += [step, Step(step.now, None)] if chance.random() < 0.3 else [step]
    later = [case._replace(now=case.now + 0.001 * i, amount=i, left_out=False) for i, case in enumerate(made)]
    return [*later, Step(later[-1].now + 1_000.0, None)]


def by_group(results: list[Fire]) -> dict[tuple[int, int], list[Fire]]:
    """In the order in which they were committed, by the first record and the start of the window."""
    groups = defaultdict[tuple[int, int], list[Fire]](list)
    for fire in results:
        groups[fire.first, fire.window.start if fire.window is not None else 0].append(fire)
    return groups


def offsets(fire: Fire) -> list[int]:
    return [int(offset) for offset in fire.values["offsets"]]


def early_of(emit: Emit, last: Fire, steps: list[Step]) -> Iterator[list[int]]:
    """The offsets in each early result of the group with this last result."""
    records, sent = offsets(last), 0
    if emit.count:
        ended = last.reason == "count"
        for many in range(emit.count, len(records) + (not ended), emit.count):
            yield records[:many]
    elif emit.on:  # the greatest offset is another one with each record, but for the last one of a count
        yield from (records[: many + 1] for many in range(len(records) - (last.reason == "count")))
    for at, step in enumerate(steps):
        if step.key is not None or emit.every is None or step.now >= last.closed:
            continue
        there = [record for record in records if record < at]
        if len(there) > sent and steps[there[sent]].now + emit.every <= step.now:
            sent = len(there)
            yield there


def wrong(partition: Turned, emit: Emit, steps: list[Step]) -> bool:
    """Whether the results differ from those that plain Python expects."""
    for fires in by_group(partition.results).values():
        last = fires[-1]
        numbers = [fire.revision for fire in fires]
        if numbers != [*range(1, len(fires) + 1)] or len({fire.number for fire in fires}) != len(fires):
            return True
        if not last.final or any(fire.final or fire.reason != EARLY for fire in fires[:-1]):
            return True
        if [offsets(fire) for fire in fires[:-1]] != [*early_of(emit, last, steps)]:
            return True
    return bool(partition.groups.states or partition.groups.early.past)


def an_emit(chance: random.Random) -> Emit:
    return chance.choice(
        [Emit(every=chance.choice([0.3, 2.0, 30.0])), Emit(count=chance.choice([1, 2, 3])), Emit(on="change")]
    )


def groups(seed: int) -> bool:
    chance = random.Random(seed)
    emit, steps = an_emit(chance), numbered(a_log(chance), chance)
    ends = {"count": chance.choice([None, 4]), "since_first": chance.choice([5.0, 50.0]), "since_last": 20.0}
    partition = played(TurnedGroups(PLAIN, lambda fire: fire, emit=emit, **ends), steps, chance)
    taken = sorted(offset for fire in partition.results if fire.final for offset in offsets(fire))
    return wrong(partition, emit, steps) or taken != [at for at, step in enumerate(steps) if step.key is not None]


def tumbling(seed: int, turned: Callable[..., Turned] = Turned) -> bool:
    chance = random.Random(seed)
    emit, window, steps = an_emit(chance), a_window(chance), numbered(a_log(chance), chance)
    count = chance.choice([3, 10_000])
    ends = None if count > 100 else count
    partition = played(turned(window, view=lambda fire: fire, emit=emit, count=ends, compute=COMPUTE), steps, chance)
    last = sorted((f.key, f.window.start, f.reason, f.first, f.last, f.count) for f in partition.results if f.final)
    oracle = expected(window, steps, count)
    same = last == sorted((e.key, e.start, e.reason, e.first, e.last, e.count) for e in oracle.results)
    return wrong(partition, emit, steps) or not same


def hopping(seed: int, turned: Callable[..., Turned] = Turned) -> bool:
    chance = random.Random(seed)
    emit, window, steps = an_emit(chance), a_window(chance), numbered(a_log(chance), chance)
    window = replace(window, size=3 * window.size, every=window.size, kind="overlapping")
    window = replace(window, at_most=window.size + 100.0)
    partition = played(turned(window, view=lambda fire: fire, emit=emit, compute=COMPUTE), steps, chance)
    return wrong(partition, emit, steps)


def sessions(seed: int, turned: Callable[..., Turned] = Turned) -> bool:
    """A session has the records of those that became part of it. Their results have an end of their own."""
    chance = random.Random(seed)
    emit, window, steps = an_emit(chance), a_session(chance), numbered(crowded(a_log(chance), chance), chance)
    partition = played(turned(window, view=lambda fire: fire, emit=emit, compute=COMPUTE), steps, chance)
    alone = played(Turned(window, lambda fire: fire, compute=COMPUTE), steps, chance)
    ends = [fire for fire in partition.results if fire.final and fire.reason != MERGED]
    same = {(f.first, f.last, f.count) for f in ends} == {(f.first, f.last, f.count) for f in alone.results}
    for fires in (fires for _, fires in sorted(by_first(partition.results).items())):
        numbers, last = [fire.revision for fire in fires], fires[-1]
        known = last.reason == MERGED or all({*offsets(fire)} <= {*offsets(last)} for fire in fires)
        if numbers != [*range(1, len(fires) + 1)] or not last.final or any(fire.final for fire in fires[:-1]):
            return True
        if not known or (last.reason == MERGED and (last.count or len(fires) < 2)):
            return True
    return not same or bool(partition.groups.early.past)


def by_first(results: list[Fire]) -> dict[int, list[Fire]]:
    made = defaultdict[int, list[Fire]](list)
    for fire in results:
        made[fire.first].append(fire)
    return made


KINDS = {"groups": groups, "tumbling": tumbling, "hopping": hopping, "sessions": sessions}


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", KINDS)
def test_any_cut_and_any_crash_give_the_early_results_of_the_oracle(kind: str, part: int) -> None:
    assert [seed for seed in range(part, LOGS, PARTS) if KINDS[kind](seed)] == []


def test_the_oracle_notices_results_without_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EarlyResults, "has_all", lambda self, group, state: False)
    monkeypatch.setattr(EarlyResults, "due_at", _due_again(EarlyResults.due_at))
    assert any(map(groups, range(100)))


def test_the_oracle_notices_revisions_that_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EarlyResults, "results", lambda self, group: 0)
    assert any(map(groups, range(100)))


def test_the_oracle_notices_a_change_that_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EarlyResults, "changed", lambda self, group, now: self.quiet.discard(group))
    assert any(map(tumbling, range(100)))


def _due_again(right):  # type: ignore[no-untyped-def]
    """A group is due a second after its last result, changed or not."""

    def due_at(self, group):  # type: ignore[no-untyped-def]
        at = right(self, group)
        state = self._groups.states.get(group)
        changed = state is None or self.past.get(group, (0, 0, 0.0))[1] != state[0]
        return at if changed or self.every == float("inf") else state[3] + 1_000 * self.results(group)

    return due_at
