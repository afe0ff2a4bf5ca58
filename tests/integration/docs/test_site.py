"""`make docs`: the site is built without a warning, and neither its build nor its readers need a network."""

import json
import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.figures import MARK, marked
from tests.integration.console.browser import browsing

PROJECT = Path(__file__).resolve().parents[3]
LISTED = re.compile(r"- \[[^]]+\]\(([\w/.-]+\.md)\)(: .+)?")
DOORS = ("Learn", "Do", "Know", "Maintainers")
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


def copied(folder: Path) -> Path:
    """The pages in this folder, beside a mkdocs.yml that builds them."""
    shutil.copytree(PROJECT / "docs", folder / "docs")
    text = (PROJECT / "mkdocs.yml").read_text(encoding="utf-8")
    hooks = re.sub(r"tests/(?=[\w/]+\.py)", f"{PROJECT}/tests/", text)
    (folder / "mkdocs.yml").write_text(hooks, encoding="utf-8")
    return folder / "docs"


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
    links = {str(page): ELSEWHERE.findall((site / page).read_text(encoding="utf-8")) for page in made}
    assert {page: tags for page, tags in links.items() if tags} == {}


def test_every_page_has_a_markdown_twin_that_llms_txt_names(site: Path) -> None:
    pages = {str(page.relative_to(PROJECT / "docs")) for page in (PROJECT / "docs").rglob("*.md")}
    lines = (site / "llms.txt").read_text(encoding="utf-8").splitlines()
    listed = [match for line in lines if (match := LISTED.fullmatch(line))]
    assert sorted(letter[1] for letter in listed) == sorted(pages)
    assert {letter[1].partition("/")[0] for letter in listed if not letter[2]} <= {"reference", "proof"}
    assert [line for line in lines if line.startswith("## ")] == ["## Start", *(f"## {door}" for door in DOORS)]
    for page in pages:
        source = (PROJECT / "docs" / page).read_text(encoding="utf-8")
        assert (site / page).read_text(encoding="utf-8") == marked(source, datetime.now(UTC).date())


def test_an_old_figure_is_marked_on_the_page_and_in_its_twin(tmp_path: Path) -> None:
    page = copied(tmp_path) / "shared.md"
    text = page.read_text(encoding="utf-8")
    page.write_text(re.sub(r"(?<=Measured on )\d{4}", "2024", text), encoding="utf-8")
    done = built(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode == 0, done.stdout + done.stderr
    assert MARK in (tmp_path / "site" / "shared.md").read_text(encoding="utf-8")
    assert f"<strong>{MARK.strip(' *')}</strong>" in (tmp_path / "site" / "shared.html").read_text(encoding="utf-8")


def test_search_ranks_guides_above_proof(site: Path) -> None:
    pages = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]
    boosts = {part["location"]: part.get("boost", 1) for part in pages}
    assert boosts["recipes/debounce.html"] > boosts["design.html"] > boosts["proof/faults.html"]


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
    page = copied(tmp_path) / "glossary.md"
    page.write_text(page.read_text(encoding="utf-8") + "\n[more](windows.md#no-such-part)\n", encoding="utf-8")
    done = built(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode == 1
    assert "no-such-part" in done.stdout + done.stderr
