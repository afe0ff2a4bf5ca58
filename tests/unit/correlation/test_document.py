"""docs/correlate.md says what is there: its file passes its own tests, and its tables have every key."""

import re
from pathlib import Path

import pytest

from sluicegate.streams.config.correlating import CorrelateModel, LegModel
from sluicegate.streams.testing.files import loaded
from sluicegate.streams.testing.play import play_with_crashes

DOCUMENT = (Path(__file__).resolve().parents[3] / "docs" / "correlate.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("number", range(4))
def test_its_file_passes_its_own_tests_with_a_death_at_every_place(tmp_path: Path, number: int) -> None:
    [file] = re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.S)
    (tmp_path / "shop.yaml").write_text(file, encoding="utf-8")
    found = loaded(tmp_path / "shop.yaml")
    assert found.app is not None, found.problems
    verdict = play_with_crashes(found.app, found.cases[number], lambda done, total: None)
    assert (verdict.failure, verdict.place) == (None, None)


@pytest.mark.parametrize("model", [CorrelateModel, LegModel])
def test_its_tables_name_every_key(model: type[CorrelateModel | LegModel]) -> None:
    names = {field.alias or name for name, field in model.model_fields.items()}
    assert {name for name in names if not re.search(rf"^\| `{name}: ?", DOCUMENT, re.M)} == set()
