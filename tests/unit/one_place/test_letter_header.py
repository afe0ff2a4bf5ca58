"""A header of dead letters that one entry adds, and one that is renamed in one place, are written and shown, stay
behind in a retry, and are on the page of the reference and in the schemas."""

import json

import pytest

from tests.unit.one_place.copy import Copy

Result = tuple[dict[str, str], str, list[str], dict[str, str]]
FILE = "streams/contracts/headers.py"
RENAMED = 'DEAD_ERROR = f"{DEAD}cause"\n'
ENTRY = """LetterHeader(
        f"{DEAD}reader", "Who reads the letter.", _TEXT, text=lambda why: f"the owner of {why.agent}"
    ),
    """
PROGRAM = """
import json
from pathlib import Path

from sluicegate.streams.cli import letters
from tests import docs_reference
from tests.unit.cli.dead_scene import Scene
from tests.unit.cli.log_topics import LogTopics
from tests.unit.cli.test_dead import FILE
from tests.unit.engine.scene import a_log

LogTopics.log, letters.BrokerTopics = a_log("in", "other", "out", "app.dead"), LogTopics
scene = Scene(Path("."), FILE)
scene.log.append("in", 0, b"k", b"{bad", [("h", b"1")])
scene.later(3)
shown = json.loads(scene.dead("show", "a", "in/0/0", "--json").stdout)
retried = scene.dead("retry", "a", "--all", "--why", "mended", "--by", "ann", "--json")
assert json.loads(retried.stdout)["sent"] == 1, retried.stdout + retried.stderr
again = scene.log.topics["in"][0][-1]
made = {name: docs_reference.written(document()) for name, document in docs_reference.DOCUMENTS.items()}
documents = {"page": docs_reference.headers(), **made}
print(json.dumps([shown, again.v.decode(), [name for name, _ in again.h], documents]))
"""


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """The headers that `dead show` prints, the value and the header names of the retried record, and the documents."""
    copy = Copy(tmp_path_factory.mktemp("product"))
    copy.put(FILE, "NEEDED_OF_LETTERS = ", RENAMED)
    copy.put(FILE, "LetterHeader(DEAD_APP", ENTRY)
    shown, value, names, documents = json.loads(copy.program(PROGRAM).splitlines()[-1])
    assert shown["error"]
    return {header["name"]: header["value"] for header in shown["headers"]}, value, names, documents


def test_dead_show_prints_them(result: Result) -> None:
    shown = result[0]
    assert (shown["sluicegate-dead-reader"], shown["h"]) == ("the owner of a", "1")
    assert shown["sluicegate-dead-cause"]
    assert "sluicegate-dead-error" not in shown


def test_a_retry_sends_the_record_without_them(result: Result) -> None:
    ours = ["sluicegate-id", "sluicegate-retried-from", "sluicegate-retried-for", "sluicegate-mac"]
    assert result[1:3] == ("{bad", ["h", *ours])


@pytest.mark.parametrize("document", ["page", "dead-letter-headers.schema.json", "dead-letter.avsc"])
def test_the_documents_describe_them(result: Result, document: str) -> None:
    text = result[3][document]
    assert "Who reads the letter." in text
    assert "sluicegate-dead-cause" in text
    assert "sluicegate-dead-error" not in text
