"""The shadow of results in other formats, and of structured CloudEvents."""

from dataclasses import replace
from pathlib import Path

import pytest

from sluicegate.streams.agent import Agent, EventEnvelope
from sluicegate.streams.config import loading
from sluicegate.streams.config.text import document
from sluicegate.streams.shadow import published
from tests.pairs import schemas
from tests.unit.engine.scene import an_agent
from tests.unit.shadow.scene import Scene, all_identical
from tests.unit.shadow.test_windows import TUMBLING, Timed, windows

FILE = """
app: app
kafka: {{bootstrap.servers: "localhost:9092"}}
store: "sqlite:///state.db"
dead_letters: dead
agents:
  sums:
    from: in
    aggregate: {{count: 3, timeout: 2500ms, compute: {{spent: {{sum: amount}}}}}}
    to: {to}
"""
OUTPUTS = {
    "avro": "{topic: out, format: avro}",
    "avro of a schema": "{topic: out, format: avro, schema: result.avsc}",
    "protobuf": "{topic: out, format: protobuf, schema: result.desc, message: Result}",
    "json-schema": "{topic: out, format: json-schema, schema: result.json, validate: true}",
    "structured": "{topic: out, envelope: {cloudevents: structured, type: t}}",
    "structured avro": "{topic: out, envelope: {cloudevents: structured, type: t}, format: avro}",
    "binary": "{topic: out, envelope: {cloudevents: binary, type: t}, format: avro}",
}


def an_agent_of(name: str, folder: Path) -> Agent:
    schemas.write(folder)
    loaded = loading.judge(document.parse(FILE.format(to=OUTPUTS[name]), {}, folder), "shop.yaml", folder)
    assert loaded.app is not None, loaded.problems
    return loaded.app.agents[0]


@pytest.mark.parametrize("name", OUTPUTS)
@pytest.mark.parametrize("seed", range(2))
def test_results_in_any_format_are_identical(name: str, seed: int, tmp_path: Path) -> None:
    scene = Scene(an_agent_of(name, tmp_path), partitions=2, seed=seed)
    scene.play(150, kill=0.2)
    comparison = scene.shadow()
    assert all_identical(comparison), comparison.document()
    assert comparison.results.counts["identical"] > 20
    place = len(scene.log.topics["out"][0]) // 2
    message = scene.log.topics["out"][0][place]
    scene.log.topics["out"][0][place] = replace(message, v=(message.v or b"")[:-1] + b"?")
    assert scene.shadow().results.counts["changed"] == 1


def test_windows_as_structured_events_are_identical() -> None:
    agent = windows(TUMBLING)
    assert agent.to is not None
    scene = Timed(replace(agent, to=replace(agent.to, envelope=EventEnvelope("structured", "t"))), seed=4)
    scene.play(120, kill=0.2)
    assert all_identical(scene.shadow())


def test_twin_that_reads_no_times_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(an_agent(count=3, since_first=2.5), seed=1)
    scene.play(100)
    assert all_identical(scene.shadow())
    monkeypatch.setattr(published.Published, "_note_times", lambda *_: None)
    assert not all_identical(scene.shadow())
