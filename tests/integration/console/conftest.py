"""One run with much in it, and one browser, for all tests of the page."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.console.browser import browsing
from tests.integration.console.npm import packed
from tests.integration.console.shop import Shop

NS = f"console-page-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"  # workers of pytest share one broker
MANY, DEAD = 10_000, 1000
AXE = ("axe-core", "4.14.1")
DIGEST = "sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory, kafka: str) -> Iterator[Shop]:
    """10,000 open groups, one of them with a hostile key, and 1,000 dead letters, one of them hostile."""
    made = Shop(tmp_path_factory.mktemp("console"), kafka, NS)
    try:
        made.fill(MANY, DEAD)
        yield made
    finally:
        made.run.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Of one module: while Playwright runs, no other test of the process can start it, or run an event loop."""
    with browsing() as made:
        yield made


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """axe-core, as a script."""
    return packed(*AXE, DIGEST, tmp_path_factory.mktemp("axe"))["axe.min.js"].decode()
