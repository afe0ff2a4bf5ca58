"""docs/windows.md says what is there: its file passes its own tests, and its table has every key."""

import re
from pathlib import Path

import pytest

from sluicegate.streams.config.sections.windows import WindowModel
from sluicegate.streams.testing.files import loaded
from sluicegate.streams.testing.play import play_with_crashes

DOCUMENT = (Path(__file__).resolve().parents[3] / "docs" / "windows.md").read_text(encoding="utf-8")


FILES = re.findall(r"```yaml\n(app: .*?)```", DOCUMENT, re.S)
CASES = [(number, case) for number, many in enumerate((4, 2, 2, 2, 2, 3, 2, 1)) for case in range(many)]
"""The tests of each file of the page."""


@pytest.mark.timeout(600)  # up to 800 deaths of 0.1 s each
@pytest.mark.parametrize(("number", "case"), CASES)
def test_its_files_pass_their_own_tests_with_a_death_at_every_place(tmp_path: Path, number: int, case: int) -> None:
    (tmp_path / "shop.yaml").write_text(FILES[number], encoding="utf-8")
    file = loaded(tmp_path / "shop.yaml")
    assert file.app is not None, file.problems
    verdict = play_with_crashes(file.app, file.cases[case], lambda done, total: None)
    assert (verdict.failure, verdict.place) == (None, None)


def test_no_test_of_its_files_is_left_out(tmp_path: Path) -> None:
    findings = []
    for number, text in enumerate(FILES):
        (tmp_path / "shop.yaml").write_text(text, encoding="utf-8")
        findings += [(number, case) for case in range(len(loaded(tmp_path / "shop.yaml").cases))]
    assert findings == CASES


def test_its_table_names_every_key() -> None:
    assert {key for key in WindowModel.model_fields if not re.search(rf"^\| `{key}: ?", DOCUMENT, re.M)} == set()
