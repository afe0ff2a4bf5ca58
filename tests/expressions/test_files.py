"""The example files do what their tests say, wherever a process dies."""

from pathlib import Path

import pytest

from sluicegate.streams.testing.files import loaded
from sluicegate.streams.testing.play import play_with_crashes

FILES = sorted((Path(__file__).parent / "files").glob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_file_does_what_its_tests_say_wherever_a_process_dies(file: Path) -> None:
    outcome = loaded(file)
    assert outcome.app is not None, [str(problem) for problem in outcome.problems]
    assert outcome.cases
    for case in outcome.cases:
        verdict = play_with_crashes(outcome.app, case, lambda done, total: None)
        assert (verdict.failure, verdict.place) == (None, None), case.name
