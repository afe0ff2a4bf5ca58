"""How a view is judged: axe-core for every reader, and places for every screen."""

from typing import Any

WIDTHS = (1400, 800, 390)
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
OVERLAPPING = """() => {
  const all = [...document.querySelectorAll("button, input, select, nav a, .tile, figure, .card")];
  const placed = all.map((each) => [each, each.getBoundingClientRect()]);
  const boxes = placed.filter(([, box]) => box.width > 1 && box.height > 1);
  const found = [];
  for (const [one, a] of boxes) for (const [other, b] of boxes) {
    if (one === other || one.contains(other) || other.contains(one)) continue;
    if (a.left + 1 < b.right && b.left + 1 < a.right && a.top + 1 < b.bottom && b.top + 1 < a.bottom)
      found.push(`${one.outerHTML.slice(0, 90)} and ${other.outerHTML.slice(0, 90)}`);
  }
  return found.slice(0, 5);
}"""


def views(topic: str) -> tuple[str, ...]:
    """The fragments of all views; `topic` is one of the app."""
    return (
        "overview",
        "agent?name=baskets",
        f"topic?name={topic}",
        "groups",
        "dead",
        "timeouts",
        "outbox",
        "progress",
        "audit",
    )


def violations(page: Any, axe: str) -> list[str]:
    page.evaluate(axe)
    result = page.evaluate(
        "rules => axe.run(document, {runOnly: {type: 'tag', values: rules}, resultTypes: ['violations']})", list(RULES)
    )
    return [
        f"{violation['id']}: {node['html'][:200]}"
        for violation in result["violations"]
        for node in violation["nodes"][:3]
    ]
