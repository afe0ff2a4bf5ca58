"""Every view for every reader: axe-core finds nothing, in light and dark; and no view is cut off or overlaps, on a wide
screen, a tablet and a phone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.console.conftest import NS
from tests.integration.console.judging import OVERLAPPING, WIDTHS, views, violations
from tests.integration.console.shop import Shop

VIEWS = views(f"{NS}-in")


@pytest.fixture(params=["light", "dark"])
def page(browser: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1400, "height": 900}, color_scheme=request.param)
    yield context.new_page()
    context.close()


def opened(page: Any, shop: Shop, view: str) -> None:
    page.goto("about:blank")
    page.goto(f"{shop.url}#{view}")
    page.locator("main > :not(.soft)").first.wait_for()
    if view == "overview":
        page.locator("canvas").first.wait_for()


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.partition("?")[0])
def test_a_view_has_no_violation(page: Any, shop: Shop, axe: str, view: str) -> None:
    opened(page, shop, view)
    assert violations(page, axe) == []


def test_a_dialog_has_no_violation(page: Any, shop: Shop, axe: str) -> None:
    for view, button in (("groups", "why"), ("groups", "drop"), ("dead", "payload"), ("dead", "retry")):
        opened(page, shop, view)
        page.get_by_role("button", name=button).first.click()
        page.get_by_role("dialog").wait_for()
        assert violations(page, axe) == []


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.partition("?")[0])
def test_a_view_fits_on_each_screen(browser: Any, shop: Shop, view: str, tmp_path: Path) -> None:
    for width in WIDTHS:
        context = browser.new_context(viewport={"width": width, "height": 900})
        page = context.new_page()
        opened(page, shop, view)
        page.screenshot(path=tmp_path / f"{width}.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(OVERLAPPING) == []
        context.close()


def test_the_keyboard_reaches_the_content_at_once_and_a_dialog_gives_the_focus_back(page: Any, shop: Shop) -> None:
    opened(page, shop, "groups")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "view"
    why = page.get_by_role("button", name="why").first
    why.press("Enter")
    page.get_by_role("dialog").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="hidden")
    assert page.evaluate("document.activeElement.dataset.id") == why.get_attribute("data-id")
