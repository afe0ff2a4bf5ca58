"""`check --connect` compares the horizon with what the input topics really keep."""

import json
import subprocess
import sys
from math import inf
from pathlib import Path

import pytest

from streams.agent import Agent, Aggregation, Deduplication, Destination
from streams.cli.systems import LATER_DUPLICATES, outlived

FILE = """\
app: NAME
kafka: {bootstrap.servers: "BOOTSTRAP"}
store: sqlite:///state.db
dead_letters: NAME.dead
agents:
  sums:
    from: [NAME.hour, NAME.ever]
    dedupe: {id: header:message-id, horizon: 1h}
    aggregate: {count: 2}
    to: {topic: NAME.out}
"""


def test_175_a_topic_that_outlives_the_horizon_of_known_ids_is_warned_of(kafka, ns, make_topic, tmp_path):
    make_topic(f"{ns}.hour", retention_ms=3_600_000)
    make_topic(f"{ns}.ever", retention_ms=-1)
    for name in ("out", "dead"):
        make_topic(f"{ns}.{name}")
    file = tmp_path / "f.yaml"
    file.write_text(FILE.replace("NAME", ns).replace("BOOTSTRAP", kafka))
    command = [Path(sys.executable).with_name("sluicegate"), "check", file, "--connect", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stdout + done.stderr
    said = [(each["text"], each["hint"]) for each in json.loads(done.stdout)["systems"] if "keeps records" in each["text"]]
    assert said == [
        (f"topic {ns}.hour keeps records for 1 h, sums remembers their ids for 1 h", ""),
        (f"topic {ns}.ever keeps records for ever, sums remembers their ids for 1 h", LATER_DUPLICATES),
    ]


@pytest.mark.parametrize(
    ("kept", "words", "hint"),
    [
        (None, "for an unknown time", LATER_DUPLICATES),
        (inf, "for ever", LATER_DUPLICATES),
        (7200.0, "for 2 h", LATER_DUPLICATES),
        (90.0, "for 90 s", ""),
    ],
)
def test_what_nobody_knows_counts_as_longer(kept, words, hint):
    agent = Agent("sums", ("in",), Aggregation(count=2), Destination("out"), "dead", dedupe=Deduplication("key", horizon=3600.0))
    found = outlived(agent, "in", kept)
    assert (found.ok, words in found.text, found.hint) == (True, True, hint)
