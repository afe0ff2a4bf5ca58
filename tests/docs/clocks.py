"""`python -m tests.docs.clocks` writes docs/pictures/clocks.svg: `grace`, `late`, `idle` and `at_most` over time.

The picture needs no script. Without animation, and for readers who ask for less motion, all of it stands still.
"""

from pathlib import Path

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "pictures" / "clocks.svg"
WIDTH, HEIGHT = 780, 530
LEFT, MINUTE = 40, 88  # pixels
CYCLE = 20  # seconds
STYLE = """text { font: 13px system-ui, sans-serif; fill: #222 } .head { font-weight: bold }
.small { font-size: 11px; fill: #555 }
.window { fill: #dbe4ff } .grace { fill: #fff3bf } .idle { fill: #ffe3e3 } .age { fill: #e5dbff }
.record { fill: #3b5bdb } .late { fill: #e03131 } .number { fill: #fff; text-anchor: middle; font-size: 11px }
.mark { stroke: #2b8a3e; stroke-width: 2; fill: none }
.close { stroke: #e8590c; stroke-width: 2; stroke-dasharray: 5 3 }
.axis { stroke: #868e96 }"""


class Drawing:
    """Shapes, each with the moment of the cycle, in hundredths, from which it is there."""

    def __init__(self) -> None:
        self.shapes: list[str] = []
        self.moments: set[int] = set()

    def add(self, shape: str, moment: int = 0) -> None:
        if moment:
            self.moments.add(moment)
            shape = f'<g class="from{moment}">{shape}</g>'
        self.shapes.append(shape)

    def text(self, x: float, y: float, words: str, kind: str, moment: int = 0) -> None:
        self.add(f'<text class="{kind}" x="{x:g}" y="{y:g}">{words}</text>', moment)

    def band(self, begin: float, end: float, y: int, height: int, kind: str, words: str) -> None:
        self.add(
            f'<rect class="{kind}" x="{at(begin):g}" y="{y}" width="{(end - begin) * MINUTE:g}" height="{height}"/>'
        )
        self.text(at(begin) + 5, y + 14, words, "small")

    def line(self, minute: float, y: int, end: int, kind: str, moment: int = 0) -> None:
        self.add(f'<path class="{kind}" d="M{at(minute):g} {y}V{end}"/>', moment)

    def record(self, minute: float, y: int, number: int, moment: int, kind: str = "record") -> None:
        dot = f'<circle class="{kind}" cx="{at(minute):g}" cy="{y}" r="9"/>'
        self.add(f'{dot}<text class="number" x="{at(minute):g}" y="{y + 4}">{number}</text>', moment)

    def axis(self, y: int, first: int, last: int, words: str) -> None:
        self.add(f'<path class="axis" d="M{LEFT} {y}H{WIDTH - 20}"/>')
        for minute in range(first, last + 1):
            self.text(at(minute - first) - 13, y + 15, f"00:{minute:02}", "small")
        self.text(LEFT, y + 30, words, "small")

    def svg(self) -> str:
        steps = "".join(
            f"@keyframes from{moment} {{ 0%, {moment}% {{ opacity: .08 }} {moment + 2}%, 100% {{ opacity: 1 }} }}\n"
            f".from{moment} {{ animation: from{moment} {CYCLE}s infinite }}\n"
            for moment in sorted(self.moments)
        )
        motion = f"@media (prefers-reduced-motion: no-preference) {{\n{steps}}}"
        title = "<title>late, idle, at_most and grace</title>"
        size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
        back = f'<rect width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#fff"/>'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size}>{title}'
        style = f"<style>\n{STYLE}\n{motion}\n</style>"
        return "\n".join([head, style, back, *self.shapes, "</svg>", ""])


def at(minute: float) -> float:
    return LEFT + minute * MINUTE


def by_event(drawing: Drawing) -> None:
    """Records in the order in which they are read, from top to bottom; the watermark is the highest time so far."""
    drawing.text(16, 24, "grace, late: the times of the records decide", "head")
    drawing.band(0, 5, 36, 190, "window", "window 00:00 to 00:05")
    drawing.band(5, 6, 36, 190, "grace", "grace: 1m")
    times = [1, 3, 2, 5.5, 4.5, 6, 4.8]
    before = 0.0
    for number, minute in enumerate(times, 1):
        y, moment, highest = 40 + 24 * number, 5 + 6 * number, max(before, minute)
        drawing.add(f'<path class="mark" d="M{at(before):g} {y - 24}V{y}H{at(highest):g}"/>', moment)
        before = highest
    for number, minute in enumerate(times, 1):
        drawing.record(minute, 40 + 24 * number, number, 5 + 6 * number, "late" if number == 7 else "record")
    drawing.text(at(6) + 14, 176, "6 is at 00:05 + grace:", "small", 43)
    drawing.text(at(6) + 14, 190, "the window closes", "small", 43)
    drawing.text(at(4.8) - 208, 212, "7 is late: its window is closed", "small", 49)
    drawing.text(at(2) + 8, 60, "green: the watermark, the highest time so far", "small")
    drawing.axis(226, 0, 7, "time of the record; the number is the order of reading")


def by_clock(drawing: Drawing) -> None:
    drawing.text(16, 290, "idle: nothing comes any more, and the clock of the worker decides", "head")
    drawing.band(0, 5, 302, 56, "window", "window 00:05 to 00:10")
    drawing.band(5, 6, 302, 56, "grace", "grace: 1m")
    drawing.band(6, 6.5, 302, 56, "idle", "idle: 30s")
    drawing.record(0.5, 338, 4, 55)
    drawing.record(1, 338, 6, 58)
    drawing.text(at(1) + 20, 342, "silence", "small", 61)
    drawing.line(6.5, 302, 358, "close", 70)
    drawing.text(at(6.5) + 8, 342, "closes: idle", "small", 70)
    drawing.axis(358, 5, 12, "the worker's clock")


def by_age(drawing: Drawing) -> None:
    drawing.text(16, 422, "at_most: records come, and their time stands still", "head")
    drawing.band(0, 5, 434, 56, "window", "window 00:00 to 00:05")
    drawing.add(f'<rect class="age" x="{at(1 / 6):g}" y="454" width="{7 * MINUTE:g}" height="12"/>')
    drawing.text(at(1 / 6) + 6, 464, "at_most: 7m from the first record", "small")
    for number, minute in enumerate([1 / 6, 6 + 1 / 6, 6 + 7 / 12, 7], 1):
        drawing.record(minute, 478, number, 74 + 4 * number)
    drawing.line(7 + 1 / 6, 434, 490, "close", 94)
    drawing.text(at(7 + 1 / 6) - 110, 448, "ends: at_most", "small", 94)
    drawing.axis(490, 0, 8, "the worker's clock; each record says that it is of 00:00:10")


def picture() -> str:
    drawing = Drawing()
    for part in (by_event, by_clock, by_age):
        part(drawing)
    return drawing.svg()


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
