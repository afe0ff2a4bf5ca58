"""A million open groups: in the console they come in pages to the last one, within a bound of memory."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.console.million import GROUPS, fill
from tests.unit.console.desk import ConsoleClient, a_console

MEGABYTES = 450  # a list of the groups as objects takes 730 alone


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("million")
    fill(made)
    return made


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[ConsoleClient]:
    with a_console(folder, time.monotonic) as made:
        yield made


@pytest.mark.timeout(400)
def test_all_pages_of_a_million_groups_are_served_within_a_bound_of_memory(folder: Path) -> None:
    command = [sys.executable, "-m", "tests.integration.console.million", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    cost = json.loads(done.stdout.splitlines()[-1])
    assert cost["groups"] == GROUPS
    assert cost["megabytes"] < MEGABYTES


@pytest.mark.timeout(400)
def test_the_page_goes_to_the_last_of_a_million_groups(browser: Any, client: ConsoleClient) -> None:
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    page = context.new_page()
    page.goto(f"{client.origin}/#groups?order=key")
    page.get_by_text("The store is being read: 0 open groups in all.").wait_for()
    page.get_by_text("1 to 100 of 1,000,000", exact=True).wait_for(timeout=300_000)
    table = page.get_by_role("region", name="Open groups")
    assert table.get_by_role("cell", name="key-0000000", exact=True).is_visible()
    page.get_by_role("button", name="last page").click()
    page.get_by_text("999,901 to 1,000,000 of 1,000,000", exact=True).wait_for()
    assert table.get_by_role("cell", name="key-0999999", exact=True).is_visible()
    assert page.get_by_role("button", name="next page").is_disabled()
    page.get_by_role("button", name="previous page").click()
    page.get_by_text("999,801 to 999,900 of 1,000,000", exact=True).wait_for()
    page.get_by_role("button", name="first page").click()
    page.get_by_text("1 to 100 of 1,000,000", exact=True).wait_for()
    page.get_by_label("Search").fill("KEY-077777")
    page.get_by_text("1 to 10 of 10", exact=True).wait_for()
    table.get_by_role("button", name="why key-0777770").click()
    assert "1 of 3" in page.get_by_role("dialog").inner_text()
    page.keyboard.press("Escape")
    context.close()
