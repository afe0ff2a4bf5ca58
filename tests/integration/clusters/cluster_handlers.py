"""Handlers for test_clusters.py, copied beside the file under test."""

from typing import Any


def later(message: Any, context: Any) -> None:
    """By the dispatcher, to the cluster that the message names."""
    context.schedule({"n": message.value["n"]}, after=0.01, topic=message.value["to"], key=b"one")
