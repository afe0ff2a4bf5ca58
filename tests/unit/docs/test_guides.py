"""Each guide of the navigation opens with words, a short example and a picture, and an example that has agents is
right."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from sluicegate.streams.config.loading import load

PROJECT = Path(__file__).resolve().parents[3]
DOCS = PROJECT / "docs"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PICTURE = re.compile(r"^```mermaid$|^!\[[^\]]+\]\(\S+\)$", re.MULTILINE)
DRAWING = "mermaid"
MOST_LINES, BEGIN = 16, 45
HEAD = """app: guide
kafka: {bootstrap.servers: "localhost:9092"}
store: sqlite:///state.db
dead_letters: guide.dead
"""
FILES = {
    "formats.md": {"order.avsc": '{"type": "record", "name": "Order", "fields": [{"name": "amount", "type": "long"}]}'},
    "debezium.md": {"router.py": "def event(batch, session):\n    pass\n"},
    "flow-control.md": {"shop.py": "def invoice(value):\n    pass\n"},
}
"""What lies beside the example of a guide."""


def guides() -> list[str]:
    """The pages of the parts of the navigation whose names begin with `Guides`."""
    parts: list[dict[str, Any]] = [part for part in _door("Do") if isinstance(part, dict)]
    return [page for part in parts for name in part if name.startswith("Guides") for page in _names(part[name])]


def lessons() -> list[str]:
    """The pages to learn from. A glossary is looked up."""
    return [page for page in _names(_door("Learn")) if page != "glossary.md"]


def _door(name: str) -> list[Any]:
    text = re.sub(r"!!python/\S+", "", (PROJECT / "mkdocs.yml").read_text(encoding="utf-8"))
    [pages] = [door[name] for door in yaml.safe_load(text)["nav"] if name in door]
    return list(pages)


def _names(pages: list[dict[str, str]]) -> list[str]:
    return [name for page in pages for name in page.values()]


def example(page: str) -> tuple[str, str]:
    """The first block that is no drawing."""
    return next((fence[1], fence[2]) for fence in FENCE.finditer(page) if fence[1] != DRAWING)


def with_agents(name: str) -> bool:
    language, text = example((DOCS / name).read_text(encoding="utf-8"))
    return language == "yaml" and re.match(r"agents:|app:", text) is not None


def lacks(page: str) -> list[str]:
    """What the opening of a guide has not."""
    if all(fence[1] == DRAWING for fence in FENCE.finditer(page)):
        return ["an example"]
    _, text = example(page)
    problems = [] if pictured(page) else ["a picture at its begin"]
    problems += ["words before the example"] if re.match(r"# [^\n]+\n\n[^\n`|#]", page) is None else []
    if page[: page.index(text)].count("\n") > BEGIN:
        problems.append("an example at its begin")
    if text.count("\n") > MOST_LINES:
        problems.append(f"an example of at most {MOST_LINES} lines")
    return problems


def pictured(page: str) -> bool:
    picture = PICTURE.search(page)
    return picture is not None and page[: picture.start()].count("\n") <= BEGIN


def test_there_are_guides() -> None:
    assert len(guides()) > 20
    assert len(lessons()) > 2


@pytest.mark.parametrize("name", lessons())
def test_a_lesson_has_a_picture_at_its_begin(name: str) -> None:
    assert pictured((DOCS / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", guides())
def test_a_guide_opens_with_words_a_short_example_and_a_picture(name: str) -> None:
    assert lacks((DOCS / name).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("name", [name for name in guides() if with_agents(name)])
def test_an_example_of_agents_is_right(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, text = example((DOCS / name).read_text(encoding="utf-8"))
    for file, content in FILES.get(name, {}).items():
        (tmp_path / file).write_text(content, encoding="utf-8")
    (tmp_path / "guide.yaml").write_text(text if text.startswith("app:") else HEAD + text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    try:
        assert load(str(tmp_path / "guide.yaml"), {}).problems == ()
    finally:  # a handler's module stays imported, and other tests have one of the same name
        for file in FILES.get(name, {}):
            sys.modules.pop(Path(file).stem, None)


def test_a_guide_without_a_part_of_its_opening_is_found() -> None:
    page = (DOCS / "early-results.md").read_text(encoding="utf-8")
    _, text = example(page)
    assert lacks(page.replace(text, text * 4, 1)) == [f"an example of at most {MOST_LINES} lines"]
    assert lacks(re.sub(r"^# .*\n\n", "# Early results\n\n```\n", page)) != []
    assert lacks(FENCE.sub("", page)) == ["an example"]
    assert lacks(page.replace("```mermaid", "```text")) == ["a picture at its begin"]
    late = page.replace("```mermaid", "\n" * BEGIN + "```mermaid", 1)
    assert lacks(late) == ["a picture at its begin"]
