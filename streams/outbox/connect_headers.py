"""The headers of Kafka Connect's dead letter queues, as its DeadLetterQueueReporter writes them (KIP-298)."""

import re

from sluicegate.streams.contracts.record import Header
from sluicegate.streams.contracts.values import Partition

PREFIX = "__connect.errors."
STAGES = {
    "decode": "VALUE_CONVERTER",
    "expression": "TRANSFORMATION",
    "dedupe": "TRANSFORMATION",
    "key": "TRANSFORMATION",
    "aggregate": "TRANSFORMATION",
    "lookup": "TRANSFORMATION",
    "handler": "TASK_PUT",
    "crash": "TASK_PUT",
    "produce": "KAFKA_PRODUCE",
}
"""Kafka Connect's name of each stage."""
_RAISED = re.compile(r"\braised ([A-Za-z_]\w*)")


def connect_headers(partition: Partition, offset: int, stage: str, reason: str, error: str, where: str) -> list[Header]:
    """All values are UTF-8 text, as in Kafka Connect. `where` is the place in the user's code that raised, or empty."""
    raised = _RAISED.search(error) if where else None
    kind = raised.group(1) if raised else f"sluicegate.{reason}"
    says = {
        "topic": partition.topic,
        "partition": str(partition.number),
        "offset": str(offset),
        "connector.name": f"{partition.app}.{partition.agent}",
        "task.id": str(partition.number),
        "stage": STAGES[stage],
        "class.name": f"sluicegate.{stage}",
        "exception.class.name": kind,
        "exception.message": error,
        "exception.stacktrace": f"{kind}: {error}\n" + (f"\tat {where}\n" if where else ""),
    }
    return [(f"{PREFIX}{name}", text.encode("utf-8", "replace")) for name, text in says.items()]
