"""The pictures of docs/console.md: `python -m tests.integration.console.shots KAFKA`."""

import sys
import tempfile
from pathlib import Path

from tests.integration.console.browser import browsing
from tests.integration.console.shop import HOSTILE, Shop
from tests.waiting import wait_until

PICTURES = Path(__file__).resolve().parents[3] / "docs" / "pictures"
FEW = 40


def main(kafka: str) -> None:
    """Writes them."""
    with tempfile.TemporaryDirectory() as folder, browsing() as browser:
        shop = Shop(Path(folder), kafka, "shop")
        try:
            shop.orders(f"customer-{number % FEW:03}" for number in range(FEW * 3))
            shop.feed((HOSTILE, b'{"v": 7}'), ("customer-007", b"not JSON"))
            wait_until(lambda: shop.taken(FEW * 3 + 2), 60.0, "all records")
            page = browser.new_context(viewport={"width": 1280, "height": 720}, color_scheme="light").new_page()
            page.goto(shop.url)
            page.get_by_role("region", name="Partitions").wait_for()
            wait_until(lambda: page.get_by_text("oldest").count() > 0, what="the overview")
            page.wait_for_timeout(2500)
            page.screenshot(path=PICTURES / "console-overview.png")
            page.get_by_role("tab", name="Groups").click()
            page.get_by_role("region", name="Open groups").wait_for()
            page.get_by_label("Order").select_option("count")
            page.get_by_role("button", name="why customer-").first.click()
            page.get_by_role("dialog").wait_for()
            page.screenshot(path=PICTURES / "console-groups.png")
        finally:
            shop.run.close()


if __name__ == "__main__":
    main(sys.argv[1])
