"""The gate of a record: repeats of Sluicegate senders are dropped in one place, for all that read a partition."""

from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]


def test_repeats_of_senders_are_dropped_in_one_place() -> None:
    files = [path for path in (PROJECT / "streams").rglob("*.py") if ".drop_repeats(" in path.read_text("utf-8")]
    assert [path.relative_to(PROJECT).as_posix() for path in files] == ["streams/reading/gate.py"]
