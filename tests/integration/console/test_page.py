"""The console in a real Chromium, over a real run."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.console.conftest import NS
from tests.integration.console.shop import HOSTILE, Shop

BAD_SHOWN = "<script>document.title='owned'</script>\\u202e\\u200b"


@pytest.fixture
def page(browser: Any, shop: Shop) -> Iterator[Any]:
    """The page. It must ask no other server, and break no rule of its own policy."""
    context = browser.new_context(viewport={"width": 1280, "height": 860}, color_scheme="light")
    page, asked, complaints = context.new_page(), list[str](), list[str]()
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(shop.url)
    page.get_by_role("region", name="Partitions").get_by_role("row").nth(2).wait_for()
    yield page
    context.close()
    assert [url for url in asked if not url.startswith((shop.url, "data:"))] == []
    assert complaints == []


def go(page: Any, view: str) -> None:
    page.get_by_role("navigation").get_by_role("link", name=view).click()


def groups(page: Any, search: str = "") -> Any:
    go(page, "Groups")
    table = page.get_by_role("region", name="Open groups")
    table.wait_for()
    if search:
        page.get_by_label("Search").fill(search)
    return table


def changed(page: Any, verb: str, why: str) -> None:
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill(why)
    dialog.get_by_role("button", name=verb).click()
    dialog.wait_for(state="hidden")


def test_each_view_shows_what_it_is_named_after(page: Any) -> None:
    text = page.inner_text("main")
    assert f"{NS}-in" in text
    assert "ready" in page.inner_text("#state")
    regions = {
        "Groups": "Open groups",
        "Timeouts": "Scheduled timeouts",
        "Outbox": "Lanes with pending rows",
        "Dead letters": "Dead letters and dead rows",
        "Deployments": "Versions of the rules",
        "Audit": "Changes by operators within 30 days",
    }
    for tab, region in regions.items():
        go(page, tab)
        page.get_by_role("region", name=region).wait_for()
        assert page.locator("#error").is_hidden()


def test_ten_thousand_groups_come_in_pages_and_are_searched(page: Any) -> None:
    table = groups(page)
    assert table.get_by_role("row").count() == 101
    assert page.inner_text("#pages") == "1 to 100 of 10,000"
    page.get_by_role("button", name="next page").click()
    page.get_by_text("101 to 200 of 10,000").wait_for()
    page.get_by_label("Search").fill("basket-0777")
    page.get_by_text("1 to 10 of 10").wait_for()
    assert table.get_by_role("cell", name="basket-07771", exact=True).is_visible()


def test_groups_are_filtered_by_age_and_by_what_ends_them(page: Any) -> None:
    table = groups(page)
    assert table.get_by_role("cell", name="timeout", exact=True).count() == 100
    page.get_by_label("Waits for").select_option("timeout")
    page.get_by_text("1 to 100 of 10,000").wait_for()
    page.locator("#field-older").select_option("over 1 day")
    page.get_by_text("None of 10,000 open groups matches.").wait_for()
    assert "older=86400" in page.url


def test_the_overview_draws_the_agents_and_the_last_hour(page: Any) -> None:
    graph = page.get_by_role("region", name="Topics and agents")
    assert graph.get_by_role("link", name="baskets").is_visible()
    for topic in ("in", "out"):
        assert graph.locator("text.name", has_text=f"{NS}-{topic}").count() == 1
    hour = page.get_by_role("region", name="Last hour")
    hour.locator("canvas").nth(5).wait_for()
    page.get_by_role("region", name="Last errors").get_by_text("given up in this run").first.wait_for()
    graph.get_by_role("link", name="baskets").click()
    page.get_by_role("heading", name="Agent baskets").wait_for()
    assert "count: 1000" in page.get_by_role("region", name="Rule").inner_text()


def test_topics_and_agents_link_to_each_other(page: Any) -> None:
    graph = page.get_by_role("region", name="Topics and agents")
    graph.get_by_role("link", name=f"{NS}-out").click()
    page.get_by_role("heading", name=f"Topic {NS}-out").wait_for()
    main = page.get_by_role("main")
    main.get_by_text("no agent of this file reads it").wait_for()
    main.get_by_role("link", name="baskets").click()
    page.get_by_role("heading", name="Agent baskets").wait_for()
    page.get_by_role("region", name="Partitions").get_by_role("link", name=f"{NS}-in").first.click()
    page.get_by_role("heading", name=f"Topic {NS}-in").wait_for()
    rows = page.get_by_role("region", name="Partitions").get_by_role("row")
    rows.nth(2).wait_for()  # the table follows the heading
    assert rows.count() == 3
    page.get_by_role("link", name="of its records").click()
    page.get_by_role("heading", name="Dead letters", exact=True).first.wait_for()
    assert page.get_by_label("Search").input_value() == f"{NS}-in/"


def test_a_column_sorts_and_the_address_keeps_it(page: Any) -> None:
    table = groups(page, "basket-0000")
    page.get_by_text("1 to 10 of 10").wait_for()
    head = table.get_by_role("columnheader", name="key")
    for order, first in (("ascending", "basket-00000"), ("descending", "basket-00009")):
        head.get_by_role("button").click()
        page.wait_for_function("text => document.querySelector('tbody td').textContent === text", arg=first)
        assert head.get_attribute("aria-sort") == order
    page.reload()
    table.wait_for()
    assert (page.get_by_label("Search").input_value(), head.get_attribute("aria-sort")) == ("basket-0000", "descending")


def test_a_filter_does_not_outlive_its_page(page: Any) -> None:
    """The agent of another view once left `Nothing is dead.` where 13 were."""
    page.goto(page.url.partition("#")[0] + "#dead?search=no+such+letter")
    page.get_by_text("Nothing dead matches.").wait_for()
    groups(page)
    go(page, "Dead letters")
    page.get_by_role("button", name="payload").first.wait_for()
    assert page.get_by_label("Search").input_value() == ""


def test_the_theme_and_the_zone_of_times_are_kept(page: Any) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_label("Theme").select_option("dark")
    assert page.evaluate(ground) != light
    go(page, "Deployments")
    page.get_by_label("Times").select_option("UTC")
    page.locator("time", has_text="UTC").first.wait_for()
    page.reload()
    page.locator("time", has_text="UTC").first.wait_for()
    assert page.evaluate(ground) != light


def test_a_hostile_key_and_payload_stay_text(page: Any) -> None:
    table = groups(page, "onerror")
    table.get_by_role("cell", name=HOSTILE, exact=True).wait_for()
    table.get_by_role("button", name="why").click()
    dialog = page.get_by_role("dialog")
    assert dialog.get_by_role("heading", level=2).inner_text() == HOSTILE
    assert "1 of 1000" in dialog.inner_text()
    page.keyboard.press("Escape")
    go(page, "Dead letters")
    page.get_by_label("Search").fill("bad")
    page.get_by_text("1 to 1 of 1", exact=True).wait_for()
    page.get_by_role("button", name="payload").click()
    page.get_by_role("dialog").get_by_text(BAD_SHOWN, exact=True).wait_for()
    page.get_by_role("button", name="Close").click()
    assert page.locator("main img, dialog img, main script, dialog script").count() == 0
    assert page.title() == f"{NS} - Dead letters - Sluicegate"


def test_the_keyboard_alone_fires_a_group(page: Any, shop: Shop) -> None:
    page.get_by_role("navigation").get_by_role("link", name="Overview").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_role("region", name="Open groups").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("basket-00042")
    page.get_by_text("1 to 1 of 1", exact=True).wait_for()
    for _ in range(20):  # past the filters, the heads of the columns and Why
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.dataset.id") == "fire basket-00042":
            break
    page.keyboard.press("Enter")
    page.keyboard.type("asked for by the shop")
    page.keyboard.press("Enter")
    page.get_by_role("dialog").wait_for(state="hidden")
    page.get_by_text("No group is open.").wait_for(timeout=60_000)
    assert ("groups fire", "basket-00042", "asked for by the shop") in shop.audited()


def test_a_change_needs_a_reason_and_is_in_the_audit(page: Any, shop: Shop) -> None:
    table = groups(page, "basket-00043")
    page.get_by_text("1 to 1 of 1", exact=True).wait_for()
    table.get_by_role("button", name="drop").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Drop").click()
    assert dialog.is_visible()
    assert all(key != "basket-00043" for _, key, _ in shop.audited())
    changed(page, "Drop", "a test basket")
    page.get_by_text("No group is open.").wait_for(timeout=60_000)
    go(page, "Audit")
    page.get_by_role("cell", name="a test basket").wait_for()
    assert ("groups drop", "basket-00043", "a test basket") in shop.audited()


def test_a_dead_letter_is_retried(page: Any, shop: Shop) -> None:
    go(page, "Dead letters")
    page.get_by_role("button", name="retry").first.click()
    changed(page, "Retry", "the decoder was mended")
    assert ("dead retry sent", "the decoder was mended") in [(what, why) for what, _, why in shop.audited()]


def test_a_page_of_another_origin_changes_nothing(browser: Any, shop: Shop, tmp_path: Path) -> None:
    """The browser of an operator who visits another site."""
    import http.server
    import threading

    (tmp_path / "evil.html").write_text("<title>evil</title>")
    handler = lambda *args: http.server.SimpleHTTPRequestHandler(*args, directory=str(tmp_path))  # noqa: E731
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as evil:
        threading.Thread(target=evil.serve_forever, daemon=True).start()
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{evil.server_port}/evil.html")
        before = shop.audited()
        for mode, kind in (("cors", "application/json"), ("no-cors", "text/plain")):
            answer = page.evaluate(
                """([url, mode, type]) => fetch(url + "console/outbox/retry", {method: "POST", mode,
                   headers: {"Content-Type": type}, body: JSON.stringify({ids: ["x"], why: "CSRF"})})
                   .then((answer) => answer.type, () => "refused")""",
                [shop.url, mode, kind],
            )
            assert answer in ("refused", "opaque")
        read = page.evaluate(
            'url => fetch(url + "console/session").then((answer) => answer.text(), () => "refused")', shop.url
        )
        assert (read, shop.audited()) == ("refused", before)
        page.set_content(f'<iframe src="{shop.url}"></iframe>')
        assert [frame.locator("#root").count() for frame in page.frames[1:]] == [0]
        context.close()
        evil.shutdown()


def test_with_a_token_the_page_asks_for_it(browser: Any, tmp_path: Path, kafka: str) -> None:
    shop = Shop(tmp_path, kafka, "console-token", ", token: s3cret-s3cret-16")
    context = browser.new_context()
    try:
        page = context.new_page()
        page.goto(shop.url)
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("http.token").fill("wrong")
        page.keyboard.press("Enter")
        page.get_by_text("the token is missing or wrong").wait_for()
        dialog.get_by_label("http.token").fill("s3cret-s3cret-16")
        page.keyboard.press("Enter")
        page.get_by_role("region", name="Partitions").wait_for()
    finally:
        context.close()
        shop.run.close()
