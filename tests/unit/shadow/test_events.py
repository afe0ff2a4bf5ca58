"""Shadow and rebuild of agents whose records are CloudEvents with data in Avro, in both modes."""

from pathlib import Path
from typing import Any

import pytest

from sluicegate.schemas import Codec, codec
from sluicegate.schemas.cloud_events import document
from sluicegate.streams import formats
from sluicegate.streams.agent import Agent
from sluicegate.streams.config import loading
from sluicegate.streams.config.text import document as documents
from tests.pairs import schemas
from tests.unit.engine.driver import memory
from tests.unit.engine.rebuilding import EPOCH, rebuild, state
from tests.unit.shadow.scene import Scene, all_identical

FILE = """
app: app
kafka: {bootstrap.servers: "localhost:9092"}
store: "sqlite:///state.db"
dead_letters: dead
agents:
  sums:
    from: {topic: in, envelope: cloudevents}
    format: avro
    schema: order.avsc
    aggregate: {count: 3, timeout: 2500ms, compute: {spent: {sum: data.amount}, kept: collect}}
    to: {topic: out}
"""


def an_agent(folder: Path) -> Agent:
    schemas.write(folder)
    loaded = loading.judge(documents.parse(FILE, {}, folder), "shop.yaml", folder)
    assert loaded.app is not None, loaded.problems
    return loaded.app.agents[0]


class Events(Scene):
    """Amounts as events in Avro, in turns in one of the modes. An amount that is null is no Avro."""

    def __init__(self, agent: Agent, payload: Codec, seed: int) -> None:
        self.payload = payload
        super().__init__(agent, seed=seed)

    def feed(self, key: str, value: Any, number: int = 0) -> None:
        offset, amount = self.log.high("in", number), value["amount"]
        order = {"id": str(offset), "amount": amount, "at": offset, "status": "open"}
        data = b"{" if amount is None else self.payload.encode(order)
        attributes = {"specversion": "1.0", "source": "/shop", "type": "order", "id": str(offset)}
        headers = [(f"ce_{name}", text.encode()) for name, text in attributes.items()]
        if offset % 2:
            data, headers = document(data, headers, "avro"), [("content-type", b"application/cloudevents+json")]
        self.log.append("in", number, key.encode(), data, headers, int((self.clock.now + EPOCH) * 1000))


@pytest.mark.parametrize("seed", range(2))
def test_events_with_data_in_avro_are_shadowed_and_rebuilt(seed: int, tmp_path: Path) -> None:
    agent = an_agent(tmp_path)
    scene = Events(agent, codec(agent.format, agent.schema), seed)
    scene.play(120, kill=0.2)
    comparison = scene.shadow()
    assert all_identical(comparison), comparison.document()
    assert comparison.results.counts["identical"] > 20
    assert comparison.dead.counts["identical"] > 5
    for key in "abc":
        scene.feed(key, {"amount": 2})
    scene.turn()
    scene.driver.later(0.6).turns()
    before, lost = state(agent, scene.store), memory(scene.clock)
    rebuild(agent, lost, scene.log, scene.clock)
    assert state(agent, lost) == before
    assert before[1]


def test_twin_that_reads_the_data_as_a_value_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = an_agent(tmp_path)
    scene = Events(agent, codec(agent.format, agent.schema), 0)
    scene.play(60)
    assert all_identical(scene.shadow())
    monkeypatch.setattr(formats, "reads", lambda agent: codec(agent.format, agent.schema))
    assert not all_identical(scene.shadow())
