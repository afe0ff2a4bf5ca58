"""A key, a value or a header steers no terminal: commands escape what they print, as text, tables and JSON."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from sluicegate.connectors import open_store
from sluicegate.streams import wording
from sluicegate.streams.cli import letters, main
from sluicegate.streams.cli.opening.files import loaded
from sluicegate.streams.cli.terminal import outcome, output
from sluicegate.streams.wording import UNPRINTABLE, in_one_line, printable
from tests.unit.cli.log_topics import LogTopics
from tests.unit.engine.driver import Driver, ManualClock
from tests.unit.engine.scene import a_log

FILE = """\
app: app
kafka: {bootstrap.servers: "127.0.0.1:1"}
store: sqlite:///state.db
start_timeout: 300ms
http: false
dead_letters: app.dead
agents:
  a: {from: in, aggregate: {count: 2, timeout: 1h, compute: {what: {last: what}}}, to: {topic: out}}
"""
HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egpj\u200b\u2066\ufeff\U000e0041\x7f\r"
SHOWN = {
    "groups": ("groups", "ls", "FILE", "a"),
    "a group": ("groups", "show", "FILE", "a", f"k{HOSTILE}"),
    "a dead letter": ("dead", "show", "FILE", "a", "in/0/1", "--payload"),
    "an error": ("groups", "why", "FILE", "a", f"none{HOSTILE}"),
}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An open group and a dead letter, both with hostile characters in key, value and header."""
    path = tmp_path / "app.yaml"
    path.write_text(FILE.replace("timeout: 1h", "timeout: {after: 1h}"))
    log = a_log("in", "out", "app.dead")
    monkeypatch.setattr(LogTopics, "log", log)
    monkeypatch.setattr(letters, "BrokerTopics", LogTopics)
    app = loaded(str(path))
    store = open_store(app.store, app.folder)
    store.migrate()
    log.append("in", 0, f"k{HOSTILE}".encode(), json.dumps({"what": HOSTILE}).encode())
    log.append("in", 0, HOSTILE.encode(), b"{bad" + HOSTILE.encode(), [(f"h{HOSTILE}", HOSTILE.encode())])
    Driver(app.agents[0], store, log, ManualClock()).give(0).turns(4)
    return str(path)


def printed(file: str, command: tuple[str, ...]) -> Result:
    return CliRunner().invoke(main, [file if word == "FILE" else word for word in command])


@pytest.mark.parametrize("what", SHOWN)
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_what_a_record_holds_is_escaped(file: str, what: str, form: tuple[str, ...]) -> None:
    result = printed(file, SHOWN[what] + form)
    assert UNPRINTABLE.findall(result.stdout + result.stderr) == []
    assert "\\u001b" in result.stdout + result.stderr
    assert "Traceback" not in result.stderr


def test_json_has_the_same_values(file: str) -> None:
    [group] = json.loads(printed(file, ("groups", "ls", "FILE", "a", "--json")).stdout)["groups"]
    assert group["key"] == f"k{HOSTILE}"


@pytest.mark.parametrize("what", ["groups", "an error"])
def test_twin_without_it_they_would_reach_the_terminal(file: str, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    for module, name in ((wording, "printable"), (output, "printable"), (output, "in_one_line")):
        monkeypatch.setattr(module, name, lambda text: text)
    result = printed(file, SHOWN[what])
    assert "\x9b" in result.stdout + result.stderr


@pytest.mark.parametrize("text", ["", "plain", "Łódź, 日本, ✓", "two\nlines\tand a tab", "👍🏽"])
def test_other_text_stays(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(
    "text", ["\u034f", "\u115f", "\u17b4", "\u180b", "\u3164", "\ufe0f", "\uffa0", "\U0001d173", "\U000e0100"]
)
def test_what_is_shown_as_nothing_is_escaped(text: str) -> None:
    """A key `ann\u3164` would look like the key `ann`: fillers and selectors are letters and marks to Unicode, and no
    format characters."""
    assert printable(f"ann{text}").isascii()


def test_a_cell_is_one_line() -> None:
    assert in_one_line("a\nb\tc\x1b") == "a\\u000ab\\u0009c\\u001b"


def test_the_page_of_the_console_knows_the_same_characters() -> None:
    page = (Path(outcome.__file__).parents[2] / "console" / "page" / "core" / "text.js").read_text("utf-8")
    begin, end = page.index("const UNPRINTABLE"), page.index("const units")
    written = re.sub(r'" \+\s*"', "", page[begin:end]).split('"')[1]
    assert ranges(written) == ranges(UNPRINTABLE.pattern.encode("unicode_escape", "surrogatepass").decode())


def ranges(pattern: str) -> list[int]:
    """The code points at which the ranges of a character class begin and end."""
    names: Callable[[Any], int] = lambda groups: int(next(part for part in groups if part), 16)  # noqa: E731
    return [names(text) for text in re.findall(r"x([0-9a-f]{2})|u\{?([0-9a-f]{4,5})\}?|U000([0-9a-f]{5})", pattern)]
