"""The pictures of docs/console.md: `python -m tests.integration.console.shots KAFKA`. The broker must be a new one."""

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.integration.console.browser import browsing
from tests.integration.console.shop import FILE, HOSTILE, SLUICEGATE, Shop
from tests.waiting import wait_until

PICTURES = Path(__file__).resolve().parents[3] / "docs" / "pictures"
FEW = 40
SECONDS = 45  # of the plots
MORE = """\
  spending:
    from: {ns}-out
    aggregate:
      count: 5
      timeout: {{after: 30s, since: first}}
      compute: {{baskets: count}}
    to: {{topic: {ns}-spending}}
"""


def demo(browser: Any) -> None:
    """The demo after three presses."""
    run = subprocess.Popen([SLUICEGATE, "demo", "--open"], stdout=subprocess.PIPE, text=True)
    try:
        assert run.stdout is not None
        lines = iter(run.stdout.readline, "")
        url = next(match.group() for line in lines if (match := re.search(r"http://127.0.0.1:\d+/", line)))
        page = browser.new_context(viewport={"width": 1400, "height": 1000}, color_scheme="light").new_page()
        page.goto(url)
        page.locator("canvas").nth(5).wait_for()
        for agent in ("delays", "carriers", "alarms"):
            page.get_by_role("button", name=f"kill -9 {agent}").click()
            page.get_by_text("1 of 1").nth(("delays", "carriers", "alarms").index(agent)).wait_for()
        page.get_by_text("All is well").or_(page.get_by_text("No problem is reported")).wait_for()
        page.screenshot(path=PICTURES / "console-demo.png")
    finally:
        run.kill()
        run.communicate()


def main(kafka: str) -> None:
    """Writes them."""
    with tempfile.TemporaryDirectory() as folder, browsing() as browser:
        demo(browser)
        text = FILE.replace("count: 1000", "count: 10") + MORE
        shop = Shop(Path(folder), kafka, "shop", text=text)
        try:
            shop.feed((HOSTILE, b'{"v": 7}'), *(("customer-007", value) for value in (b"not JSON", b'{"v": "x"}') * 3))
            for second in range(SECONDS):
                began = time.monotonic()
                shop.orders(f"customer-{number % FEW:03}" for number in range(40 + 30 * (second % 7)))
                time.sleep(max(0.0, began + 1 - time.monotonic()))
            for scheme in ("light", "dark"):
                page = browser.new_context(viewport={"width": 1400, "height": 1000}, color_scheme=scheme).new_page()
                page.goto(shop.url)
                page.get_by_role("region", name="Partitions").wait_for()
                page.locator("canvas").nth(5).wait_for()
                wait_until(lambda page=page: page.get_by_text("6 dead letters").count() > 0, 60.0, "the dead letters")
                page.screenshot(path=PICTURES / f"console-overview{'-dark' if scheme == 'dark' else ''}.png")
            page.get_by_label("Theme").select_option("light")
            page.goto(f"{shop.url}#dead")
            page.get_by_role("region", name="Causes").wait_for()
            page.screenshot(path=PICTURES / "console-dead.png")
            page.goto(f"{shop.url}#groups?order=-count")
            page.get_by_role("button", name="why customer-").first.click()
            page.get_by_role("dialog").wait_for()
            page.screenshot(path=PICTURES / "console-groups.png")
        finally:
            shop.run.close()


if __name__ == "__main__":
    main(sys.argv[1])
