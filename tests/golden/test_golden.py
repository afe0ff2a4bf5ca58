"""This build takes over what an earlier one wrote, and writes the same bytes itself."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.golden.features import FEATURES
from tests.golden.play import Play, recording

RECORDED = Path(__file__).parent / "recorded"


def recordings(name: str) -> list[Path]:
    """NAME.json, and NAME.2.json and so on of later builds that write the state in another form, oldest first."""
    first = RECORDED / f"{name.replace(' ', '-')}.json"
    return [first, *sorted(RECORDED.glob(f"{first.stem}.[0-9].json"))]


def recorded(file: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return content


def ended(name: str, state: dict[str, Any], folder: Path) -> list[str]:
    """What was sent when this build has ended the script on the state."""
    feature = FEATURES[name]
    with Play(feature, folder) as play:
        play.steps(feature.first)
        play.take_over(state)
        play.steps(feature.second)
        return play.outputs()


@pytest.mark.parametrize(
    ("name", "file"), [pytest.param(name, file, id=file.stem) for name in FEATURES for file in recordings(name)]
)
def test_the_state_of_an_earlier_build_goes_on_to_the_same_results(name: str, file: Path, tmp_path: Path) -> None:
    golden = recorded(file)
    assert ended(name, golden["state"], tmp_path) == golden["end"]


@pytest.mark.parametrize("name", FEATURES)
def test_this_build_writes_the_same_bytes(name: str, tmp_path: Path) -> None:
    """Where the state has a new form, `python -m tests.golden` records it beside the earlier files, which stay."""
    again = recording(FEATURES[name], tmp_path)
    assert json.loads(json.dumps(again)) == recorded(recordings(name)[-1])


@pytest.mark.parametrize("name", FEATURES)
def test_twin_a_changelog_that_is_not_read_changes_the_results(name: str, tmp_path: Path) -> None:
    """So the state that is recorded matters to what follows."""
    golden = recorded(recordings(name)[-1])
    lost = {**golden["state"], "sluicegate_changelog": [], "sluicegate_claim": []}
    assert ended(name, lost, tmp_path) != golden["end"]


def test_every_recording_has_its_feature() -> None:
    assert set(RECORDED.glob("*.json")) == {file for name in FEATURES for file in recordings(name)}
