"""docs/statistics.md says what is there: its file passes its own tests, and its table has every reducer."""

import re
from pathlib import Path

import pytest

from sluicegate.streams.testing.files import loaded
from sluicegate.streams.testing.play import play_with_crashes

DOCUMENT = (Path(__file__).resolve().parents[3] / "docs" / "statistics.md").read_text(encoding="utf-8")
REDUCERS = {"variance", "stddev", "count_by", "percentile", "approx_distinct", "top", "first_n", "last_n"}


def test_its_file_passes_its_own_tests_with_a_death_at_every_place(tmp_path: Path) -> None:
    text, *_ = re.findall(r"```yaml\n(app: .*?)```", DOCUMENT, re.S)
    (tmp_path / "shop.yaml").write_text(text, encoding="utf-8")
    file = loaded(tmp_path / "shop.yaml")
    assert file.app is not None, file.problems
    assert file.cases
    for case in file.cases:
        verdict = play_with_crashes(file.app, case, lambda done, total: None)
        assert (verdict.failure, verdict.place) == (None, None)


@pytest.mark.parametrize("kind", sorted(REDUCERS))
def test_its_table_has_every_reducer(kind: str) -> None:
    assert re.search(rf"^\| `{{{kind}: ", DOCUMENT, re.M)
