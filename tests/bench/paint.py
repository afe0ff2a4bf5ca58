"""How soon a view of the console is there, with 10,000 open groups and 1,000 dead letters:
`python -m tests.bench.paint KAFKA [ROUNDS]`.

Opens each view in Chromium with an empty cache. Prints, in milliseconds, when the browser painted first, and when the
rows of the view were there: the median and the longest.
"""

import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from tests.integration.console.browser import browsing
from tests.integration.console.shop import Shop
from tests.waiting import wait_until

GROUPS, DEAD = 10_000, 1000
VIEWS = {"overview": "canvas", "groups": "tbody tr", "dead": "tbody tr"}
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


def main(kafka: str, rounds: int) -> None:
    """Prints one line for each view."""
    with tempfile.TemporaryDirectory() as folder, browsing() as browser:
        shop = Shop(Path(folder), kafka, f"bench-paint-{time.time_ns()}")
        try:
            shop.fill(GROUPS, DEAD)
            for view, element in VIEWS.items():
                painted, there = list[float](), list[float]()
                for _ in range(rounds):
                    page = browser.new_context().new_page()
                    page.goto(f"{shop.url}#{view}")
                    page.locator(element).first.wait_for()
                    there.append(page.evaluate("performance.now()"))
                    painted.append(wait_until(lambda page=page: page.evaluate(PAINTED), what="the first paint"))
                    page.context.close()
                times = [f"{median(of):.0f} (longest {max(of):.0f})" for of in (painted, there)]
                print(f"{view}: first paint {times[0]} ms, rows {times[1]} ms", flush=True)
        finally:
            shop.run.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 9)
