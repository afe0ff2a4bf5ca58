"""`check --connect`: whether all possible inputs and outputs fit into messages."""

from collections.abc import Iterator, Mapping

from sluicegate.connectors.kafka import admin
from sluicegate.streams.agent import App
from sluicegate.streams.cli.terminal.finding import SystemFinding
from sluicegate.streams.cli.topics import written
from sluicegate.streams.outbox.sizes import LARGEST, longest

UNPACKED = "set its compression.type to uncompressed, or its max.message.bytes to what a worker has memory for"
USUAL = 1_048_588  # bytes: the default of the brokers


def findings(app: App, there: Mapping[str, int | None], timeout: float) -> Iterator[SystemFinding]:
    """Topics that take smaller messages than the app sends, and inputs with records that no dead letter holds. Raises
    SystemNotReady."""
    inputs, most = {topic for agent in app.agents for topic in agent.topics}, longest(app)
    outputs = written(app.agents)
    topics = [topic for topic in sorted(inputs | outputs) if there.get(topic)]
    limits = admin.largest(app.brokers, topics, timeout)
    wide = [topic for topic, limit in limits.items() if limit is not None and topic in inputs and limit > USUAL]
    for topic in admin.chosen_by_producers(app.brokers, wide, timeout):
        text = f"topic {topic} takes batches of up to {limits[topic]} bytes, and producers choose their compression"
        yield SystemFinding("kafka", True, text, f"unpacked they may have a thousand times as many: {UNPACKED}")
    for topic, limit in limits.items():
        if limit is not None and topic in outputs and limit < most:
            text = f"topic {topic} takes messages of up to {limit} bytes, and the app sends up to {most}"
            hint = f"larger ones become dead rows: set its max.message.bytes to {most}, or kafka: message.max.bytes to "
            yield SystemFinding("kafka", True, text, f"{hint}{limit}")
        if limit is not None and topic in inputs and limit > max(most, USUAL):
            text = f"topic {topic} may have records of up to {limit} bytes, and a message of the app has up to {most}"
            hint = "the dead letter of a larger record has its beginning, and larger outputs are dead letters"
            more = f"; kafka: message.max.bytes raises it, up to {LARGEST}" if most < LARGEST else ""
            yield SystemFinding("kafka", True, text, f"{hint}{more}")
