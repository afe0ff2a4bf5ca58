"""What CI ran is kept, a small file for each day, and the page shows it."""

from typing import Any

from tests import ran
from tests.stages import Count, StageRun, record


def a_record(run: str = "core", commit: str = "c" * 40, failed: int = 0) -> dict[str, Any]:
    stages = [
        StageRun("check", True, 20.4, Count(0, 0, 0)),
        StageRun("unit", not failed, 300.2, Count(90, failed, 2, 1)),
    ]
    return {**record(run, stages), "commit": commit, "part": 1}


def test_the_page_is_made_of_the_files() -> None:
    assert ran.PAGE.read_text(encoding="utf-8") == ran.page(ran.kept())


def test_a_record_names_commit_part_and_what_each_stage_did() -> None:
    made = record("core", [StageRun("unit", False, 1.6, Count(2, 1, 0))])
    assert len(str(made["commit"])) == 40
    assert made["stages"] == {
        "unit": {"good": False, "seconds": 2, "passed": 2, "failed": 1, "skipped": 0, "not_begun": 0}
    }


def test_a_line_counts_all_stages_and_names_the_one_that_failed() -> None:
    assert ran.line("2026-11-28", a_record(failed=3)) == (
        "| 2026-11-28 | core | cccccccc | 90 | 3 | 2 | 1 | 320 | unit |"
    )


def test_the_same_run_again_replaces_its_record_and_others_stay() -> None:
    first, rest, again = a_record(failed=1), a_record("rest"), a_record()
    other = a_record(commit="d" * 40)
    assert ran.merged([first, rest], [again, other]) == [again, rest, other]
