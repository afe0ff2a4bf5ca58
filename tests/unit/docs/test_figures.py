"""Each measured figure of the pages has an origin: a commit of this repository, a day and a machine. Old
ones are marked."""

import json
import subprocess
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from tests import figures

PAGES = figures.pages()
LINE = "*Measured on 2026-11-25 at ad6fe96c: 2 quiet cores.*"
TABLE = "| system | k/s |\n|---|---|\n| sqlite | 978 |\n"


def commits() -> set[str]:
    """The commits of the repository, as figures name them. Empty where it has no history."""
    command = ["git", "-C", str(figures.PROJECT), "log", "--format=%H"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return {commit[:8] for commit in done.stdout.split()}


def recorded() -> set[str]:
    """The commits that docs/proof/ci.md lists. Commits that are landed as one are in no history, but in this record."""
    days = (json.loads(day.read_text()) for day in (figures.PROJECT / "docs" / "proof" / "ci").glob("*.json"))
    return {run["commit"][:8] for runs in days for run in runs}


@pytest.mark.parametrize("name", PAGES)
def test_each_figure_has_an_origin(name: str) -> None:
    assert figures.without_origin(PAGES[name]) == []


def test_each_origin_names_a_commit_of_this_repository_or_of_the_record_of_ci() -> None:
    if len(known := commits()) < 1_000:
        pytest.skip("a clone without its history")
    origins = [origin for name, text in PAGES.items() for origin in figures.origins(name, text)]
    assert len(origins) > 40
    assert [origin for origin in origins if origin.commit not in known | recorded()] == []
    assert [origin for origin in origins if origin.day > datetime.now(UTC).date()] == []


@pytest.mark.parametrize(
    "text",
    [
        TABLE,
        "Measured with 100,000 updates: 24 milliseconds.",
        "A span costs about 60 µs.",
        "It took 1.4 times the CPU time.",
        f"{TABLE}\n{LINE}\n\nA later figure: 978 ns.",
        f"- the first, 978 ns\n- the second, 62,900 records a second\n\n## Another heading\n\n{LINE}",
    ],
)
def test_a_figure_without_an_origin_below_it_is_found(text: str) -> None:
    assert figures.without_origin(f"# Speed\n\n{text}") != []


def test_an_origin_holds_up_to_its_heading_or_the_origin_above_it() -> None:
    text = f"# Speed\n\nMedians of 3 rounds:\n\n{TABLE}\n{LINE}\n\n- It takes 1.5 µs.\n  {LINE}\n"
    assert figures.without_origin(text) == []
    first, _ = figures.origins("page.md", text)
    assert first == figures.Origin("page.md", "Speed", date(2026, 11, 25), "ad6fe96c", True, "2 quiet cores")


def test_an_origin_whose_commit_is_unknown_says_so() -> None:
    text = f"# Speed\n\n{LINE.replace('at ', 'at an unknown commit before ')}"
    assert [origin.known for origin in figures.origins("page.md", text)] == [False]


def test_code_has_no_figures() -> None:
    assert figures.without_origin(f"# Speed\n\n```text\n{TABLE}```\n") == []


def test_a_figure_of_more_than_sixty_days_is_marked() -> None:
    day = date(2026, 11, 25)
    assert figures.marked(LINE, day + timedelta(days=60)) == LINE
    assert figures.marked(LINE, day + timedelta(days=61)) == LINE + figures.MARK


def test_the_command_lists_each_origin_with_its_age(capsys: pytest.CaptureFixture[str]) -> None:
    assert figures.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert "docs/shared.md | Limits | 2026-11-22 | 226ffb40 | " in "\n".join(lines)
    assert len(lines) == sum(len(figures.origins(name, text)) for name, text in PAGES.items())


def test_a_program_that_writes_figures_names_the_commit_it_runs_on() -> None:
    origin = figures.ORIGIN.fullmatch(figures.origin_line("2 cores"))
    assert origin is not None
    assert origin["commit"] in commits()


def test_twins_are_marked(tmp_path: Path) -> None:
    page = tmp_path / "proof" / "page.md"
    page.parent.mkdir()
    page.write_text(LINE.replace("2026", "2024"), encoding="utf-8")
    figures.on_post_build({"site_dir": str(tmp_path)})
    assert page.read_text(encoding="utf-8").endswith(figures.MARK)
