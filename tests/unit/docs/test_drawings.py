"""Each drawing of a page has its file, drawn of the present source."""

from tests.docs import drawings

COMMAND = "run: python -m tests.docs.drawings MERMAID_JS"


def test_each_drawing_is_drawn_and_there_are_no_other_files() -> None:
    files = {file.name for file in (drawings.PAGES / drawings.FOLDER).iterdir()}
    assert files == {*drawings.sources()}, COMMAND


def test_a_changed_drawing_has_no_file() -> None:
    source = next(iter(drawings.sources().values()))
    assert not (drawings.PAGES / drawings.FOLDER / drawings.name(source + "a --> b\n")).exists()
