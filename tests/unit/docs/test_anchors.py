"""Links of docs/ lead to headings that exist: `make docs` refuses others, and takes a minute to say so."""

import re
from pathlib import Path

from markdown import Markdown

DOCS = Path(__file__).parents[3] / "docs"
LINK = re.compile(r"\]\(([\w/.-]+\.md)?#([^)\s]+)\)")
EXTENSIONS = ["toc", "attr_list", "tables", "admonition", "pymdownx.superfences"]


def anchors(text: str) -> set[str]:
    return set(re.findall(r'\bid="([^"]+)"', Markdown(extensions=EXTENSIONS).convert(text)))


def test_every_link_to_a_heading_names_one_of_its_page() -> None:
    pages = {page: page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md")}
    links = [(page, *link) for page, text in pages.items() for link in LINK.findall(text)]
    targets = {(page.parent / path).resolve() if path else page for page, path, _ in links}
    headings = {target: anchors(pages[target]) for target in targets if target in pages}
    lost = [
        f"{page.relative_to(DOCS)}: {path}#{anchor}"
        for page, path, anchor in links
        if anchor not in headings.get((page.parent / path).resolve() if path else page, set())
    ]
    assert len(links) > 100
    assert lost == []
