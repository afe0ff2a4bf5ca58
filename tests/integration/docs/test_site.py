"""`make docs`: the site is built without a warning, and neither its build nor its readers need a network."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.console.browser import browsing

PROJECT = Path(__file__).resolve().parents[3]
ELSEWHERE = re.compile(r"""<(?:script|link|img|iframe)[^>]*?(?:src|href)=["']?(?:https?:)?//[^>]*>""")


def built(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """A network that the build would ask for is not there."""
    environ = {
        **os.environ,
        "NO_MKDOCS_2_WARNING": "1",
        "https_proxy": "http://127.0.0.1:9",
        "http_proxy": "http://127.0.0.1:9",
    }
    command = [sys.executable, "-m", "mkdocs", "build", "-f", str(config), "--site-dir", str(site)]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=170)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = built(PROJECT / "mkdocs.yml", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_there_and_names_no_other_host(site: Path) -> None:
    pages = {page.relative_to(PROJECT / "docs").with_suffix(".html") for page in (PROJECT / "docs").rglob("*.md")}
    made = {page.relative_to(site) for page in site.rglob("*.html")}
    assert made == pages | {Path("404.html")}
    found = {str(page): ELSEWHERE.findall((site / page).read_text(encoding="utf-8")) for page in made}
    assert {page: tags for page, tags in found.items() if tags} == {}


def test_a_browser_shows_its_drawings_and_its_search_from_files_alone(site: Path) -> None:
    with browsing() as browser:
        page = browser.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"file://{site}/design.html")
        assert page.locator("img[src*=drawings]").count() == 2
        assert page.evaluate("[...document.images].every(image => image.complete && image.naturalWidth > 100)")
        page.get_by_role("textbox", name="Search").fill("fencing token")
        page.get_by_role("link", name="Glossary").first.wait_for()
    assert [url for url in asked if not url.startswith((f"file://{site}/", "data:", "about:"))] == []


def test_a_link_to_nothing_fails_the_build(tmp_path: Path) -> None:
    shutil.copytree(PROJECT / "docs", tmp_path / "docs")
    text = (PROJECT / "mkdocs.yml").read_text(encoding="utf-8")
    (tmp_path / "mkdocs.yml").write_text(text.replace("tests/docs/", f"{PROJECT}/tests/docs/"), encoding="utf-8")
    page = tmp_path / "docs" / "glossary.md"
    page.write_text(page.read_text(encoding="utf-8") + "\n[more](windows.md#no-such-part)\n", encoding="utf-8")
    done = built(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode == 1
    assert "no-such-part" in done.stdout + done.stderr
