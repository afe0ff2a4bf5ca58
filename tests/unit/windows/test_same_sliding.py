"""However a log out of order is cut into batches, and wherever the process dies, each record has the result of a naive
oracle, and the same records are late: over 1,000 random logs."""

import random
from bisect import bisect
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from sys import maxsize
from typing import Any

import pytest

from sluicegate.streams.agent import Reducer, Window
from sluicegate.streams.aggregation.events import Fire
from sluicegate.streams.testing.log import LogRecord
from sluicegate.streams.windows.groups import WindowGroups
from sluicegate.streams.windows.sliding import totals
from sluicegate.streams.windows.sliding.groups import SlidingGroups
from sluicegate.streams.windows.sliding.lines import NEVER, Line, WindowReach
from sluicegate.streams.windows.sliding.sums import ExactSum
from sluicegate.streams.windows.sliding.totals import BestTotal, Merged, SumTotal, TimedState
from sluicegate.streams.windows.tumbling import key_of
from tests.unit.windows.oracle import Step
from tests.unit.windows.sliding_oracle import SlidingOracle, SlidingResult
from tests.unit.windows.test_same_sessions import crowded
from tests.unit.windows.test_same_windows import a_log, a_window, played
from tests.unit.windows.turning import Turned, judged

LOGS = 1_000
VALUES = ("count", "sum", "min", "max", "mean", "first", "last", "distinct", "collect")
COMPUTE = (
    *(Reducer(kind, kind, None if kind == "count" else "amount") for kind in VALUES),
    *(Reducer(kind, kind, "amount", option=2) for kind in ("first_n", "last_n")),
)
WITHOUT_BAGS = VALUES[:7]
"""The reducers with which the compiled loop takes the records of sliding windows."""
SEVENTHS = 7
TIME, NUMBER, BOTH = "time", "number", "both"
"""What bounds the windows."""

pytestmark = pytest.mark.usefixtures("small")


class Divided(Turned):
    """The amounts of the records are those of the steps, divided by `parts`: of seven they are doubles, and a sum of
    them depends on the order in which they are added, if it is rounded each time."""

    parts = 1

    def take(self, first: int, steps: Sequence[Step]) -> None:
        amounts = (step.amount if self.parts == 1 else step.amount / self.parts for step in steps)
        records = [
            LogRecord("in", 0, first + i, step.key, b'{"amount":%s}' % repr(amount).encode(), at=step.time)
            for i, (step, amount) in enumerate(zip(steps, amounts, strict=True))
        ]
        left_out = {first + i for i, step in enumerate(steps) if step.left_out}
        self.groups.accept(records, steps[0].now, left_out)


def told(fire: Fire) -> SlidingResult:
    assert fire.window is not None
    assert (fire.reason, fire.window.by, fire.number) == ("window", "event", fire.last)
    place = (fire.key, fire.window.start, fire.window.end, fire.first, fire.last)
    amounts = fire.values["collect"]
    assert (fire.values["first_n"], fire.values["last_n"]) == (amounts[:2], amounts[-2:])
    return SlidingResult(*place, tuple(fire.values[name] for name in VALUES))


def told_by_the_loop(fire: Fire) -> SlidingResult:
    """As `told`, of reducers without bags."""
    assert fire.window is not None
    assert (fire.reason, fire.window.by, fire.number) == ("window", "event", fire.last)
    place = (fire.key, fire.window.start, fire.window.end, fire.first, fire.last)
    return SlidingResult(*place, tuple(fire.values[name] for name in WITHOUT_BAGS))


def a_sliding(chance: random.Random, by: str = TIME) -> Window:
    size, grace = chance.choice([0.1, 0.3, 1.0, 3.0, 10.0]), chance.choice([0.0, 0.3, 3.0, 10.0])
    window = replace(a_window(chance), kind="sliding", size=size, grace=grace, offset=0.0, at_most=None)
    if by == TIME:
        return window
    last = chance.choice([1, 2, 3, 5, 20, 40])
    return replace(window, last=last) if by == BOTH else replace(window, size=0.0, last=last)


def rounded(steps: list[Step], chance: random.Random) -> list[Step]:
    """Records of half of the logs are at the begin of a window, or at one moment."""
    unit = chance.choice([1, 100])
    return [step if step.key is None else step._replace(time=step.time // unit * unit) for step in steps]


def outcomes(seed: int, by: str = TIME, by_loop: bool = False, having: str = "") -> tuple[SlidingOracle, Turned]:
    chance = random.Random(seed)
    window, most = a_sliding(chance, by), chance.choice([4, 10_000, 10_000])
    steps = rounded(crowded(a_log(chance), chance), chance)
    parts = chance.choice([1, SEVENTHS])
    size, grace = round(1000 * window.size), round(1000 * window.grace)
    oracle = judged(SlidingOracle(size, grace, window.max_ahead, most, parts, last=window.last), steps)
    compute = COMPUTE[: len(WITHOUT_BAGS)] if by_loop else COMPUTE
    own = told_by_the_loop if by_loop else told
    partition = Divided(window, own, compute=compute, max_items=most, on_full="dead-letter", having=having)
    partition.parts = parts
    return oracle, played(partition, steps, chance)


def differs(seed: int, by: str = TIME, by_loop: bool = False, having: str = "") -> bool:
    oracle, partition = outcomes(seed, by, by_loop, having)
    results = [result for result in oracle.results if not having or result.values[0] % 3 == 0]
    if by_loop:
        results = [result._replace(values=result.values[: len(WITHOUT_BAGS)]) for result in results]
    same = partition.results == results and partition.refused == oracle.refused
    return not (same and leaves(partition.groups, oracle))


def leaves(groups: WindowGroups, oracle: SlidingOracle) -> bool:
    """Whether the records are kept that a record in time may have in its window, and no others for long."""
    assert isinstance(groups, SlidingGroups)
    times = sorted((state[totals.AT] for state in groups.states.values()), reverse=True)
    reach, watermark = groups.reach, oracle.watermark
    if oracle.left > len(times) or any(time + reach.keep + reach.slack <= watermark for time in times):
        return False
    for key in {key_of(group) for group in groups.states}:
        old = [state[totals.AT] for group, state in groups.states.items() if key_of(group) == key]
        if len([time for time in old if time + reach.grace <= watermark]) > reach.spare:
            return False
    return True


def differences(logs: int = LOGS, by: str = TIME) -> int:
    """In how many logs the results, or the records that were refused, differ from those of the oracle."""
    return sum(differs(seed, by) for seed in range(logs))


def test_any_cut_and_any_crash_give_the_results_of_the_oracle() -> None:
    assert differences() == 0


@pytest.mark.parametrize("by", [NUMBER, BOTH])
def test_the_last_records_of_a_key_are_those_of_the_oracle(by: str) -> None:
    assert differences(by=by) == 0


@pytest.mark.parametrize("by", [TIME, NUMBER, BOTH])
def test_the_compiled_loop_gives_the_results_of_the_oracle(by: str) -> None:
    assert not any(differs(seed, by, by_loop=True) for seed in range(300))


@pytest.mark.parametrize("having", ["count % 3 == 0", "count % 3 == 0 && mean > -1000000000"])
@pytest.mark.parametrize("by", [TIME, NUMBER, BOTH])
def test_totals_that_having_does_not_read_are_those_of_the_oracle(by: str, having: str) -> None:
    assert not any(differs(seed, by, by_loop=True, having=having) for seed in range(200))


@pytest.mark.parametrize("by", [TIME, NUMBER, BOTH])
def test_a_few_logs(by: str) -> None:
    assert differences(60, by) == 0


def test_reducers_without_totals_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their parts of the records are merged, in the order of the log: sums of integers are the same then."""
    monkeypatch.setattr(totals, "TOTALS", {})
    monkeypatch.setattr(__name__ + ".SEVENTHS", 1)
    assert differences(60) == 0


def test_the_logs_have_every_kind_of_refusal_and_much_disorder() -> None:
    reasons, disorder = set[str](), 0
    for seed in range(100):
        oracle, _ = outcomes(seed)
        reasons |= {why for _, why in oracle.refused}
        ends = [result.end for result in oracle.results if result.key == b"a"]
        disorder += sum(later < earlier for earlier, later in pairwise(ends))
    assert reasons == {"late", "time-ahead", "limit"}
    assert disorder > 100


def test_a_restore_that_forgets_the_watermark_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WindowGroups, "restore_clock", lambda self, clock, origins: None)
    assert differences(100)


def test_a_window_without_its_first_moment_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    init = Line.__init__
    monkeypatch.setattr(Line, "__init__", lambda self, reach, *rest: init(self, smaller(reach), *rest))
    assert differences(100)


def smaller(reach: WindowReach) -> WindowReach:
    return reach._replace(size=reach.size - 1)


def fewer(reach: WindowReach) -> WindowReach:
    return reach._replace(most=max(1, reach.most - 1))


def test_a_window_without_its_first_record_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    init = Line.__init__
    monkeypatch.setattr(Line, "__init__", lambda self, reach, *rest: init(self, fewer(reach), *rest))
    assert differences(100, NUMBER)


def test_last_records_that_leave_before_one_in_time_can_have_them_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that is out of order has the last records before it in its window."""
    gone = Line._gone
    monkeypatch.setattr(Line, "_gone", lambda self, watermark: gone(self, watermark + self._reach.grace))
    assert differences(100, NUMBER)


def test_last_records_that_stay_for_ever_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Line, "forgotten", lambda self: NEVER)
    assert differences(100, NUMBER)


def test_a_record_out_of_order_that_pushes_no_other_out_of_the_newest_window_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    insert = Line._insert

    def without_room(self: Line, entry: TimedState) -> Any:
        own = self._reach
        self._reach = own._replace(most=maxsize)
        try:
            insert(self, entry)
        finally:
            self._reach = own
        window = self.entries[self._starts(at := self.entries.index(entry)) : at + 1]
        self.start = window[0][0]
        return self._made(window).state(entry, len(window), window[0]), window

    monkeypatch.setattr(Line, "_insert", without_room)
    assert differences(100, NUMBER)


def test_a_record_that_is_forgotten_with_its_window_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that is out of order may still have it in its own window."""
    init = SlidingGroups.__init__

    def without_grace(self: SlidingGroups, *rest: Any) -> None:
        init(self, *rest)
        self.reach = self.reach._replace(keep=self.reach.size + 1)

    monkeypatch.setattr(SlidingGroups, "__init__", without_grace)
    assert differences(100)


def test_a_refused_record_that_moves_the_watermark_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SlidingGroups, "_lead", moving)
    assert differences(200)


def moving(self: SlidingGroups, record: Any, key: bytes, time: int, *rest: Any) -> None:
    self.event.read(time)
    self.count(record, key, time, *rest)


def test_a_total_that_lets_nothing_go_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (SumTotal, BestTotal, Merged):
        with monkeypatch.context() as patch:
            patch.setattr(kind, "remove", lambda self, entry: None)
            patch.setattr(totals, "TOTALS", {} if kind is Merged else totals.TOTALS)
            assert differences(60), kind


def test_a_least_value_that_is_not_in_its_place_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def in_front_of_better_ones(best: deque[TimedState], entry: TimedState, worse: totals.Worse) -> None:
        best.insert(bisect(best, entry), entry)

    monkeypatch.setattr(totals, "inserted", in_front_of_better_ones)
    assert differences(100)


def test_a_sum_that_is_rounded_at_each_record_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def add(sign: int) -> Callable[[ExactSum, float], None]:
        def added(self: ExactSum, value: float) -> None:
            self.integers += sign * value  # type: ignore[assignment]

        return added

    monkeypatch.setattr(ExactSum, "add", add(1))
    monkeypatch.setattr(ExactSum, "remove", add(-1))
    assert differences(100)


def test_an_exact_sum_is_that_of_fractions() -> None:
    chance = random.Random(7)
    for _ in range(200):
        numbers = [chance.choice([chance.randint(-9, 9), chance.uniform(-1, 1) * 10.0 ** chance.randint(-320, 300)])
                   for _ in range(chance.randint(1, 30))]  # fmt: skip
        total, others = ExactSum(), [chance.uniform(-1e300, 1e300) for _ in range(5)]
        for number in [*others, *numbers]:
            total.add(number)
        for number in others:
            total.remove(number)
        whole = all(type(number) is int for number in numbers)
        assert total.value == (sum(numbers) if whole else float(sum(map(Fraction, numbers))))


def test_a_sum_without_a_double_is_infinite_until_the_numbers_are_gone() -> None:
    total = ExactSum()
    for number in (1e308, 1e308, 0.5):
        total.add(number)
    assert total.value == float("inf")
    total.remove(1e308)
    total.remove(1e308)
    assert total.value == 0.5
    total.add(float("-inf"))
    assert total.value == float("inf")
    total.remove(float("-inf"))
    assert total.value == 0.5
