"""A record chooses no name of a topic, a log field, a label of a metric or a file. Its key, its headers, its fields and
their values hold a word that must be in none of them."""

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from sluicegate.streams.config.loading import load
from sluicegate.streams.testing.driver import TestDriver
from tests.fuzz import later

WORD = "c4n4ry"
PATHS = [WORD, f"../{WORD}", f"/tmp/{WORD}", f"{WORD}\n", f"{{{WORD}}}", f"${{{WORD}}}", f"out.{WORD}"]


def records() -> list[bytes]:
    """Good ones and broken ones, with the word as a field's name, a value and a type."""
    texts = [path.replace("\n", "\\n") for path in PATHS]
    good = [f'{{"id":1,"v":"{text}","t":"{text}","topic":"{text}","to":"{text}","{text}":1}}' for text in texts]
    types = [f'{{"id":1,"v":{{"@type":"{text}","$ref":"{text}","__class__":"{text}"}}}}' for text in texts]
    return [text.encode() for text in [*good, *types, *[text[:-1] for text in good]]]


def names(feature: str, folder: Path) -> dict[str, list[str]]:
    """The names that a run of this feature uses, by what they are of."""
    file = folder / "app.yaml"
    file.write_text(f"{later.HEAD}  {later.FEATURES[feature]}\n")
    app = load(file, {}).app
    assert app is not None
    headers: list[tuple[str, bytes]] = [(f"sluicegate-{WORD}", b"x"), ("sluicegate-topic", WORD.encode())]
    headers += [("sluicegate-retried-for", WORD.encode()), ("sluicegate-dead-topic", WORD.encode()), (WORD, b"x")]
    with capture_logs() as lines, TestDriver(app, partitions=1) as driver:
        for number, value in enumerate(records()):
            driver.send("in", value, key=PATHS[number % len(PATHS)], headers=headers)
        driver.advance("1m")
        counted, topics = driver.counts("a"), [*driver.output_topics, *driver.dead_letter_topics]
    labels = [label for _, values in counted for label in values]
    fields: list[Any] = [name for line in lines for name in line]
    return {
        "topics": topics,
        "labels": [*map(str, labels)],
        "log fields": fields,
        "events": [line["event"] for line in lines],
        "files": [path.name for path in folder.rglob("*")],
    }


@pytest.mark.parametrize("feature", later.FEATURES)
def test_a_record_chooses_no_name(feature: str, tmp_path: Path) -> None:
    words = names(feature, tmp_path)
    assert [(kind, name) for kind, used in words.items() for name in used if WORD in name] == []
    assert words["files"] == ["app.yaml"]
    assert {*words["topics"]} <= {"out", "dead", "mid"}
