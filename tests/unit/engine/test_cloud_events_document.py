"""docs/cloudevents.md says what is there: its file passes its own tests, and its table has every key."""

import re
from pathlib import Path

import pytest

from sluicegate.streams.config.sections.envelopes import EnvelopeModel
from sluicegate.streams.testing.files import loaded
from sluicegate.streams.testing.play import play_with_crashes

DOCUMENT = (Path(__file__).resolve().parents[3] / "docs" / "cloudevents.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("number", range(2))
def test_its_file_passes_its_own_tests_with_a_death_at_every_place(tmp_path: Path, number: int) -> None:
    [text] = re.findall(r"```yaml\n(app: .*?)```", DOCUMENT, re.DOTALL)
    (tmp_path / "shop.yaml").write_text(text, encoding="utf-8")
    file = loaded(tmp_path / "shop.yaml")
    assert file.app is not None, file.problems
    verdict = play_with_crashes(file.app, file.cases[number], lambda done, total: None)
    assert (verdict.failure, verdict.place) == (None, None)


def test_its_table_names_every_key() -> None:
    assert {key for key in EnvelopeModel.model_fields if not re.search(rf"^\| `{key}`", DOCUMENT, re.M)} == set()
