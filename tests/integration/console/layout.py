"""The layout of each view, as rectangles. `python -m tests.integration.console.layout` writes them to `layout.json`.

Pixels are not compared: fonts, their smoothing and their widths differ from machine to machine, so a picture of one
would be wrong on every other. What a person sees of a layout are its rectangles and colours: which panels and columns
there are, in which order, how wide, and that they do not overlap. The page gets recorded answers (`answers.json`), so
its content is always the same.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from sluicegate.streams.console.calls import FOLDER, TYPES
from tests.integration.console.browser import browsing
from tests.integration.console.judging import WIDTHS, views

HERE = Path(__file__).parent
PICTURE, ANSWERS = HERE / "layout.json", HERE / "answers.json"
ORIGIN = "http://console.test"
SCHEMES = ("light", "dark")
VIEWS = views("shop-in")
PANEL, PART, OWN = 0.02, 0.12, 0.3
"""How much the left edge and the width of a panel, and of a part of one, may differ, as a part of the screen and of the
widest part, or of its own width: the width of texts differs with the font. The left edge of a part is the sum of the
widths before it, or it begins a line, so only the order of columns is compared. A height may differ by TALLER."""
LEAST, TALLER = 12, 0.5  # pixels, and a part of the height
RECTANGLES = """() => {
  const found = [];
  const add = (kind, name, element) => {
    const box = element.getBoundingClientRect();
    if (box.width < 1 || box.height < 1) return;
    const at = [box.left + scrollX, box.top + scrollY, box.width, box.height].map(Math.round);
    found.push([`${kind} ${(name || "").trim().replace(/\\s+/g, " ")}`, ...at]);
  };
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  for (const each of all("h1")) add("part h1", each.textContent, each);
  for (const each of all("nav")) add("panel", "navigation", each);
  for (const each of all("nav a")) add("part link", each.firstChild.textContent, each);
  for (const each of all(".facts .fact")) add("part fact", each.querySelector("dt").textContent, each);
  for (const each of all(".bar .field")) add("part field", each.querySelector("span").textContent, each);
  for (const each of all(".tile")) add("part tile", each.querySelector("dt").textContent, each);
  for (const each of all(".pages button")) add("part button", each.textContent, each);
  for (const card of all("main section[aria-label]")) {
    const name = card.getAttribute("aria-label");
    add("panel", name, card);
    for (const head of all("th", card)) add("column", `${name}: ${head.textContent.replace(/[↓↑↕]/g, "")}`, head);
    for (const plot of all("figure", card)) add("part plot", plot.textContent.slice(0, 20), plot);
  }
  return found;
}"""
OVERLAPS = """() => {
  const found = [], box = (element) => element.getBoundingClientRect();
  const meet = (a, b) =>
    a.left + 1 < b.right && b.left + 1 < a.right && a.top + 1 < b.bottom && b.top + 1 < a.bottom;
  for (const row of document.querySelectorAll("main tr")) {
    const cells = [...row.children];
    cells.forEach((cell, at) => {
      const text = document.createRange();
      text.selectNodeContents(cell);
      for (const other of cells.slice(at + 1))
        if (meet(box(cell), box(other)) || meet(text.getBoundingClientRect(), box(other)))
          found.push(`${cell.textContent.trim()} and ${other.textContent.trim()}`);
    });
  }
  const panels = [...document.querySelectorAll("main section[aria-label]")].filter((each) => box(each).height > 1);
  panels.forEach((one, at) => {
    for (const other of panels.slice(at + 1))
      if (!one.contains(other) && !other.contains(one) && meet(box(one), box(other)))
        found.push(`${one.getAttribute("aria-label")} and ${other.getAttribute("aria-label")}`);
  });
  return found.slice(0, 5);
}"""
COLOURS = """() => {
  const colour = (selector, name) => {
    const element = document.querySelector(selector);
    return element ? getComputedStyle(element)[name] : null;
  };
  return {
    ground: colour("body", "backgroundColor"), text: colour("body", "color"),
    panel: colour("main section", "backgroundColor"), head: colour("th", "color"),
    link: colour("main a", "color"), badge: colour(".badge.bad", "backgroundColor"),
  };
}"""


class Rectangle(NamedTuple):
    """A named element of the page, in pixels."""

    name: str
    left: int
    top: int
    width: int
    height: int


Layout = list[Rectangle]


@contextmanager
def opened(browser: Any, view: str, width: int, scheme: str) -> Iterator[Any]:
    """A view in a browser without a server."""
    answers = json.loads(ANSWERS.read_text(encoding="utf-8"))
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, timezone_id="UTC")

    def answer(route: Any) -> None:
        name = route.request.url.removeprefix(ORIGIN).partition("?")[0]
        if name.startswith("/console/"):
            route.fulfill(json=answers[name.removeprefix("/console/")])
        else:
            path = FOLDER / ("console.html" if name == "/" else name[1:])
            route.fulfill(body=path.read_bytes(), content_type=f"{TYPES[path.suffix]}; charset=utf-8")

    context.route("**/*", answer)
    page = context.new_page()
    page.goto(f"{ORIGIN}/#{view}")
    page.locator("main > :not(.soft)").first.wait_for()
    if view.partition("?")[0] in ("overview", "agent"):
        page.locator("canvas").first.wait_for()
    yield page
    context.close()


def measured(page: Any) -> Layout:
    return [Rectangle(*rectangle) for rectangle in page.evaluate(RECTANGLES)]


def differences(known: Layout, seen: Layout, width: int) -> list[str]:
    """What a person would see, in words: what is missing, new, in another order, or of another place or size."""
    names, now = [rectangle.name for rectangle in known], [rectangle.name for rectangle in seen]
    problems = [f"{name}: missing" for name in names if name not in now]
    problems += [f"{name}: new" for name in now if name not in names]
    if problems or names != now:
        return problems or ["the elements are in another order"]
    if _order(known) != _order(seen):
        return [f"the panels and columns are in the order {', '.join(_order(seen))}"]
    for one, other in zip(known, seen, strict=True):
        kind = one.name.partition(" ")[0]
        part = max(OWN * one.width, PART * max(width, *(rectangle.width for rectangle in known)))
        wide = LEAST + (PANEL * width if kind == "panel" else part)
        edge = wide if kind == "panel" else inf
        changes = (other.left - one.left, other.width - one.width, other.height - one.height)
        allowed = (edge, wide, LEAST + TALLER * one.height)
        for what, change, most in zip(("left edge", "width", "height"), changes, allowed, strict=True):
            if abs(change) > most:
                problems.append(f"{one.name}: its {what} differs by {change} pixels at {width}")
    return problems


def _order(layout: Layout) -> list[str]:
    """The panels from top to bottom, and the columns of each table from left to right."""
    panels = sorted(
        (rectangle for rectangle in layout if rectangle.name.startswith("panel ")),
        key=lambda rectangle: (rectangle.top, rectangle.left),
    )
    columns = sorted(
        (rectangle for rectangle in layout if rectangle.name.startswith("column ")),
        key=lambda rectangle: (rectangle.name.partition(":")[0], rectangle.left),
    )
    return [rectangle.name for rectangle in (*panels, *columns)]


def picture() -> Mapping[str, Any]:
    return dict(json.loads(PICTURE.read_text(encoding="utf-8")))


def main() -> None:
    """Writes the picture."""
    lines = []
    with browsing() as browser:
        colours = {}
        for scheme in SCHEMES:
            with opened(browser, "dead", WIDTHS[0], scheme) as page:
                colours[scheme] = page.evaluate(COLOURS)
        for view in VIEWS:
            for width in WIDTHS:
                with opened(browser, view, width, "light") as page:
                    rows = ",\n  ".join(json.dumps(rectangle, ensure_ascii=False) for rectangle in measured(page))
                    lines.append(f' "{view} {width}": [\n  {rows}\n ]')
    lines.append(f' "colours": {json.dumps(colours)}')
    PICTURE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
