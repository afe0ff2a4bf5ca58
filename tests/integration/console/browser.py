"""Chromium of the distribution, driven by playwright."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")


def needed(text: str) -> NoReturn:
    """Skips the test for what is not installed, and fails it in CI, which installs it."""
    if os.environ.get("CI"):
        pytest.fail(text)
    pytest.skip(text)


def chromium() -> str:
    """Its path."""
    for name in NAMES:
        if path := shutil.which(name):
            return path
    needed("no Chromium: install the distribution's package `chromium`")


@contextmanager
def browsing() -> Iterator[Any]:
    """A browser. Its sandbox needs rights that a container may not have."""
    path = chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()
