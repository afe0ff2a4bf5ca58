"""`check --connect` and the start of `run` compare what `dedupe` remembers with what the input topics really keep and
get."""

import json
import subprocess
import sys
from math import inf
from pathlib import Path

import pytest
from confluent_kafka import Producer
from structlog.testing import capture_logs

from sluicegate.streams.agent import Agent, Aggregation, Deduplication, Destination
from sluicegate.streams.cli.checking.duplicates import LATER_DUPLICATES, crowded, outlived
from sluicegate.streams.cli.workers.wiring import prepare
from sluicegate.streams.config import load

FILE = """\
app: NAME
kafka: {bootstrap.servers: "BOOTSTRAP"}
store: sqlite:///state.db
dead_letters: NAME.dead
agents:
  sums:
    from: [NAME.hour, NAME.ever]
    dedupe: {id: header:message-id, horizon: 1h, max_ids: 2}
    aggregate: {count: 2}
    to: {topic: NAME.out}
"""


MORE = "ids are forgotten before their horizon: write max_ids: 6 (128 bytes each), or a shorter horizon"


@pytest.fixture
def file(kafka, ns, make_topic, tmp_path):
    """Two topics, one of which keeps its records for ever and got three in the last hour, and nine in 1970; the other
    two."""
    make_topic(f"{ns}.hour", retention_ms=3_600_000)
    make_topic(f"{ns}.ever", 2, retention_ms=-1)
    for name in ("out", "dead"):
        make_topic(f"{ns}.{name}")
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
    for topic, partition, at in [  # at 0: now
        *[("hour", 0, 0)] * 2,
        *[("ever", 1, 0)] * 3,
        *[("ever", 0, 1000)] * 9,
    ]:
        producer.produce(f"{ns}.{topic}", b"{}", partition=partition, timestamp=at)
    producer.flush(30)
    path = tmp_path / "f.yaml"
    path.write_text(FILE.replace("NAME", ns).replace("BOOTSTRAP", kafka))
    return path


def test_175_a_topic_that_outlives_the_horizon_of_known_ids_is_warned_of(file, ns):
    command = [Path(sys.executable).with_name("sluicegate"), "check", file, "--connect", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stdout + done.stderr
    texts = [
        (system["text"], system["hint"]) for system in json.loads(done.stdout)["systems"] if "ids" in system["text"]
    ]
    assert texts == [
        (f"topic {ns}.hour keeps records for 1 h, sums remembers their ids for 1 h", ""),
        (f"topic {ns}.hour got up to 2 records in a partition within 1 h, sums remembers 2 ids", ""),
        (f"topic {ns}.ever keeps records for ever, sums remembers their ids for 1 h", LATER_DUPLICATES),
        (f"topic {ns}.ever got up to 3 records in a partition within 1 h, sums remembers 2 ids", MORE),
    ]


def test_the_start_of_a_run_warns_of_the_same(file, ns):
    app = load(file, {}).app
    with capture_logs() as lines, prepare(app, ("sums",), lambda seconds: None):
        pass
    warned = [line["text"] for line in lines if line["event"] == "dedupe.short"]
    assert warned == [
        f"topic {ns}.ever keeps records for ever, sums remembers their ids for 1 h; {LATER_DUPLICATES}",
        f"topic {ns}.ever got up to 3 records in a partition within 1 h, sums remembers 2 ids; {MORE}",
    ]


@pytest.mark.parametrize(("busiest", "warned"), [(0, False), (1_000_000, False), (1_000_001, True)])
def test_as_many_ids_as_records_are_enough(busiest, warned):
    agent = Agent("sums", ("in",), Aggregation(count=2), Destination("out"), "dead", dedupe=Deduplication("key"))
    assert bool(crowded(agent, "in", busiest).hint) is warned


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
    agent = Agent(
        "sums", ("in",), Aggregation(count=2), Destination("out"), "dead", dedupe=Deduplication("key", horizon=3600.0)
    )
    warning = outlived(agent, "in", kept)
    assert (warning.ok, words in warning.text, warning.hint) == (True, True, hint)
