"""A picture of figures: panels with dots and lines, logarithms on the axes. It needs no script."""

from collections.abc import Sequence
from math import ceil, floor, log10
from typing import NamedTuple

WIDTH, HEIGHT, COLUMNS = 390, 240, 2
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 40, 34
STYLE = """text { font: 12px system-ui, sans-serif; fill: #222 } .head { font-weight: bold; font-size: 13px }
.small { font-size: 11px; fill: #555 } .right { text-anchor: end } .middle { text-anchor: middle }
.grid { stroke: #dee2e6 } .axis { stroke: #868e96 }
.line { fill: none; stroke-width: 2 } .c0 { stroke: #3b5bdb } .c1 { stroke: #e8590c } .c2 { stroke: #2b8a3e }
.c3 { stroke: #9c36b5 } .c4 { stroke: #0b7285 } .c5 { stroke: #c92a2a } .c6 { stroke: #5c940d } .c7 { stroke: #495057 }
.dot { fill: #fff; stroke-width: 2 }"""
COLORS = 8

Point = tuple[float, float]


class Series(NamedTuple):
    name: str
    points: Sequence[Point]


class Panel(NamedTuple):
    """`log_x`: the horizontal axis is of logarithms; the vertical one always is."""

    title: str
    unit: str
    series: Sequence[Series]
    log_x: bool = True


def chart(title: str, panels: Sequence[Panel]) -> str:
    rows = ceil(len(panels) / COLUMNS)
    width, height = WIDTH * min(COLUMNS, max(1, len(panels))), HEIGHT * rows
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size}><title>{title}</title>']
    parts += [f"<style>\n{STYLE}\n</style>", f'<rect width="{width}" height="{height}" rx="6" fill="#fff"/>']
    for number, panel in enumerate(panels):
        parts.append(f'<g transform="translate({number % COLUMNS * WIDTH} {number // COLUMNS * HEIGHT})">')
        parts += [*_panel(panel), "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel) -> list[str]:
    points = [point for series in panel.series for point in series.points]
    across = _Scale([x for x, _ in points], LEFT, WIDTH - RIGHT, panel.log_x)
    up = _Scale([y for _, y in points], HEIGHT - BOTTOM, TOP, True)
    shapes = [_text(16, 20, panel.title, "head"), _text(LEFT, TOP - 6, panel.unit, "small")]
    for value in up.ticks:
        y = up.at(value)
        shapes.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        shapes.append(_text(LEFT - 6, y + 4, _number(value), "small right"))
    shapes.append(f'<path class="axis" d="M{LEFT} {HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>')
    for value in across.ticks:
        shapes.append(_text(across.at(value), HEIGHT - BOTTOM + 16, _number(value), "small middle"))
    for number, series in enumerate(panel.series):
        places = [(across.at(x), up.at(y)) for x, y in series.points]
        kind = f"c{number % COLORS}"
        shapes.append(f'<path class="line {kind}" d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in places)}"/>')
        shapes += [f'<circle class="dot {kind}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in places]
        if series.name and places:
            x, y = places[max(0, len(places) - 1 - 3 * number)]  # names do not lie on each other
            shapes.append(_text(x, y - 7, series.name, "small right"))
    return shapes


class _Scale:
    """Places of values between two edges, a little inside of them."""

    def __init__(self, values: Sequence[float], begin: float, end: float, logarithms: bool) -> None:
        self._log = logarithms
        least, most = self._of(min(values)), self._of(max(values))
        if logarithms and most - least < 0.5:  # a nearly constant value is a flat line
            least, most = (least + most) / 2 - 0.25, (least + most) / 2 + 0.25
        span = (most - least) or 1.0
        self._least, self._span = least - 0.06 * span, 1.12 * span
        self._begin, self._end = begin, end
        self.ticks = self._decades(least, most) if logarithms else sorted(set(values))

    def at(self, value: float) -> float:
        return self._begin + (self._of(value) - self._least) / self._span * (self._end - self._begin)

    def _of(self, value: float) -> float:
        return log10(value) if self._log else value

    def _decades(self, least: float, most: float) -> list[float]:
        """Powers of ten; with twos and fives where there are few of them."""
        steps = (1,) if most - least > 2 else (1, 2, 5)
        values = [step * 10.0**power for power in range(floor(least) - 1, ceil(most) + 1) for step in steps]
        return [value for value in values if self._least <= log10(value) <= self._least + self._span]


def _text(x: float, y: float, words: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{words}</text>'


def _number(value: float) -> str:
    for size, sign in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{sign}"
    return f"{value:g}"
