"""docs/correlate.md says what is there: its file passes its own tests, and its tables have every key."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from sluicegate.streams.config import Loaded
from sluicegate.streams.config.sections.correlating import CorrelateModel, LegModel
from sluicegate.streams.config.sections.correlating_time import CorrelationTimeout
from sluicegate.streams.testing.files import loaded
from sluicegate.streams.testing.play import play, play_with_crashes

DOCUMENT = (Path(__file__).resolve().parents[3] / "docs" / "correlate.md").read_text(encoding="utf-8")


FILE, _, BACKLOG = re.findall(r"```yaml\n(app: .*?)```", DOCUMENT, re.S)


def loaded_from(file: str, folder: Path) -> Loaded:
    (folder / "shop.yaml").write_text(file, encoding="utf-8")
    shop = loaded(folder / "shop.yaml")
    assert shop.app is not None, shop.problems
    return shop


@pytest.mark.parametrize("number", range(4))
def test_its_file_passes_its_own_tests(tmp_path: Path, number: int) -> None:
    file = loaded_from(FILE, tmp_path)
    assert file.app is not None
    assert play(file.app, file.cases[number]) is None


@pytest.mark.parametrize("number", range(2))
def test_which_of_two_records_that_do_not_fit_together_stays_is_as_it_says(tmp_path: Path, number: int) -> None:
    file = loaded_from(BACKLOG, tmp_path)
    assert file.app is not None
    assert play(file.app, file.cases[number]) is None


@pytest.mark.timeout(600)  # over 1,000 places to die at
@pytest.mark.parametrize("number", range(4))
def test_its_file_passes_its_own_tests_with_a_death_at_every_place(tmp_path: Path, number: int) -> None:
    """With shorter times, and with the agents of the test alone: each mark that is written in the silence has places to
    die at."""
    text = FILE
    for usual, shorter in (("t: 15m", "t: 1s"), ("912s", "13s"), ("t: 10s", "t: 2s"), ("22s", "14s")):
        assert usual in text
        text = text.replace(usual, shorter)
    file = loaded_from(text, tmp_path)
    assert file.app is not None
    tested = "settle" if number < 2 else "alarm"
    app = replace(file.app, agents=tuple(agent for agent in file.app.agents if agent.name.startswith(tested)))
    verdict = play_with_crashes(app, file.cases[number], lambda done, total: None)
    assert (verdict.failure, verdict.place) == (None, None)


@pytest.mark.parametrize("model", [CorrelateModel, LegModel, CorrelationTimeout])
def test_its_tables_name_every_key(model: type[CorrelateModel | LegModel | CorrelationTimeout]) -> None:
    names = {field.alias or name for name, field in model.model_fields.items()}
    assert {name for name in names if not re.search(rf"^\| .*`{name}[:`]", DOCUMENT, re.M)} == set()
