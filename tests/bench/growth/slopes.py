"""The tables of the growth bench, and the slopes: of a line through the logarithms, and the steepest step."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import log
from statistics import linear_regression, median

from tests.bench.growth.axes import Axis
from tests.bench.growth.trials import Cost
from tests.bench.table import spread

Point = tuple[float, float]


def medians(costs: Mapping[str, Sequence[Cost]]) -> list[Point]:
    return [(float(x), median(outcome.micros for outcome in many)) for x, many in costs.items()]


def slope(points: Sequence[Point]) -> float:
    """Of log y over log x, by least squares: 0 is constant, 1 is proportional."""
    return linear_regression([log(x) for x, _ in points], [log(max(y, 1e-9)) for _, y in points]).slope


def steepest(points: Sequence[Point]) -> tuple[float, Point, Point]:
    """The largest slope between two neighbours."""
    return max((slope(pair), *pair) for pair in pairwise(points))


def axis_table(axis: Axis, costs: Mapping[str, Sequence[Cost]]) -> str:
    more = [*next(iter(costs.values()))[0].more]
    head = [axis.title, "µs a record", "MiB", *more, "right"]
    rows = [head, ["---"] * len(head)]
    for x, many in costs.items():
        columns = [f"{median(outcome.more[name] for outcome in many):.1f}" for name in more]
        peak = max(outcome.peak for outcome in many)
        right = f"{sum(not outcome.problems for outcome in many)}/{len(many)}"
        rows.append(
            [f"{int(x):,}", spread([c.micros for c in many], "{:.2f}"), f"{peak:.0f}" if peak else "", *columns, right]
        )
    return "\n".join([f"\n### {axis.title}\n", *_lines(rows), "", slopes(medians(costs))])


def stored_table(store: str, costs: Mapping[str, Sequence[Cost]]) -> str:
    rows = [["records", "µs a record", "MB"], ["---"] * 3]
    rows += [[f"{int(x):,}", f"{c.micros:.2f}", f"{c.more['MB']:.1f}"] for x, (c, *_) in costs.items()]
    sizes = [(float(x), c.more["MB"]) for x, (c, *_) in costs.items()]
    return "\n".join([f"\n### {store} after so many records\n", *_lines(rows), "", f"Of the size: {slopes(sizes)}"])


def slopes(points: Sequence[Point]) -> str:
    if len(points) < 2:
        return "One point has no slope."
    most, (begin, _), (end, _) = steepest(points)
    return f"Slope {slope(points):.2f}; the steepest step, from {begin:,.0f} to {end:,.0f}, has {most:.2f}."


def _lines(rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in rows]
