"""The figures of the growth bench as a picture: a panel for each axis, logarithms on both sides."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from tests.bench.chart import Panel, Series, chart
from tests.bench.growth.axes import AXES
from tests.bench.growth.slopes import slope
from tests.bench.growth.stored import STORES

Figures = Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]


def picture(figures: Figures) -> str:
    panels = []
    for name, axis in AXES.items():
        if name in figures:
            points = [(float(x), median(outcome["micros"] for outcome in many)) for x, many in figures[name].items()]
            title = f"{axis.title}: slope {slope(points):.2f}" if len(points) > 1 else axis.title
            panels.append(Panel(title, "µs a record", [Series("", points)]))
    sizes = [
        Series(store, [(float(x), max(one["MB"], 0.01)) for x, (one, *_) in figures[store].items()])
        for store in STORES
        if store in figures
    ]
    if sizes:
        panels.append(Panel("size of the store after so many records", "MB", sizes))
    return chart("Cost as one thing grows", panels)
