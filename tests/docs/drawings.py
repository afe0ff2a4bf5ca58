"""The drawings of the documents: blocks of Mermaid in a page, SVG files on the site.

`python -m tests.docs.drawings MERMAID_JS` draws the blocks that have no file yet, in Chromium, and deletes files
without a block. MERMAID_JS is `dist/mermaid.min.js` of the npm package `mermaid`. mkdocs calls `on_page_markdown`: the
site shows the files, so neither its build nor its readers need Mermaid.
"""

import hashlib
import re
import sys
from pathlib import Path
from typing import Any

PAGES = Path(__file__).resolve().parents[2] / "docs"
FOLDER = "pictures/drawings"
BLOCK = re.compile(r"^```mermaid\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SETTINGS = {
    "startOnLoad": False,
    "theme": "neutral",
    "htmlLabels": False,
    "flowchart": {"useMaxWidth": False},
    "sequence": {"useMaxWidth": False},
}


def name(source: str) -> str:
    """The file of a drawing, by its source: a changed drawing has no file until it is drawn again."""
    return f"{hashlib.sha256(source.encode()).hexdigest()[:16]}.svg"


def sources() -> dict[str, str]:
    """File -> source, of all pages."""
    pages = (page.read_text(encoding="utf-8") for page in sorted(PAGES.rglob("*.md")))
    return {name(source): source for page in pages for source in BLOCK.findall(page)}


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The page with an image in place of each block. The heading before a block describes its image."""

    def image(block: re.Match[str]) -> str:
        headings = re.findall(r"^#+ (.*)$", markdown[: block.start()], re.MULTILINE)
        up = "../" * page.file.src_uri.count("/")
        return f"![{headings[-1] if headings else page.title}]({up}{FOLDER}/{name(block[1])})"

    return BLOCK.sub(image, markdown)


def draw(mermaid: str) -> None:
    """Draws what has no file."""
    from tests.integration.console.browser import browsing

    folder = PAGES / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    wanted = sources()
    for file in folder.glob("*.svg"):
        if file.name not in wanted:
            file.unlink()
    with browsing() as browser:
        page = browser.new_page()
        page.set_content("<body></body>")
        page.add_script_tag(path=mermaid)
        page.evaluate("settings => mermaid.initialize(settings)", SETTINGS)
        for file, source in wanted.items():
            if not (folder / file).exists():
                call = "async ([id, text]) => (await mermaid.render(id, text)).svg"
                svg = page.evaluate(call, [f"d{file[:8]}", source])
                (folder / file).write_text(svg + "\n", encoding="utf-8")


if __name__ == "__main__":
    draw(sys.argv[1])
