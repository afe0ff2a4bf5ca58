"""The AsyncAPI document of an app: a channel for each topic, an operation for each agent and topic.

It follows AsyncAPI 3.0.0 and version 0.5.0 of its bindings for Kafka.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from sluicegate.streams.agent import Agent, App
from sluicegate.streams.asyncapi import messages

VERSION = "3.0.0"
BINDING = "0.5.0"


class _Operation(NamedTuple):
    """`name` is unique in the document. The message has the same name."""

    name: str
    action: str
    agent: Agent
    topic: str
    message: dict[str, Any]


def document(app: App, version: str) -> dict[str, Any]:
    """The document of the app, whose own version is `version`; ready for JSON. Raises ValueError for an Avro output
    without a schema."""
    operations = [operation for agent in app.agents for operation in _operations(agent)]
    servers = _servers(app)
    channels: dict[str, Any] = {}
    for operation in operations:
        known = channels.setdefault(operation.topic, {"address": operation.topic, "messages": {}})
        known["messages"][operation.name] = {"$ref": f"#/components/messages/{operation.name}"}
    if servers:
        for channel in channels.values():
            channel["servers"] = [{"$ref": f"#/servers/{name}"} for name in servers]
    made = {
        "asyncapi": VERSION,
        "info": {"title": app.name, "version": version},
        "defaultContentType": "application/json",
        "servers": servers,
        "channels": channels,
        "operations": {operation.name: _operation(app, operation) for operation in operations},
        "components": {
            "messages": {operation.name: {"name": operation.name, **operation.message} for operation in operations}
        },
    }
    return {name: value for name, value in made.items() if value}


def _servers(app: App) -> dict[str, Any]:
    """The brokers to begin with. None for the embedded broker."""
    hosts = str(app.kafka.get("bootstrap.servers", ""))
    if not hosts or hosts == "embedded":
        return {}
    secure = "SSL" in str(app.kafka.get("security.protocol", "")).upper()
    protocol = "kafka-secure" if secure else "kafka"
    return {f"kafka-{at}": {"host": host.strip(), "protocol": protocol} for at, host in enumerate(hosts.split(","), 1)}


def _operations(agent: Agent) -> Iterator[_Operation]:
    for topic in agent.topics:
        yield _Operation(f"{agent.name}.receive.{topic}", "receive", agent, topic, messages.record(agent, topic))
    sent = set[str]()
    for to in agent.outputs:
        if to.topic not in sent:  # of several routes to a topic the first one is shown
            sent.add(to.topic)
            yield _Operation(f"{agent.name}.send.{to.topic}", "send", agent, to.topic, messages.result(agent, to))
    if agent.dead_letters:
        name = f"{agent.name}.dead.{agent.dead_letters}"
        yield _Operation(name, "send", agent, agent.dead_letters, messages.dead_letter(agent))
    if agent.history:
        name = f"{agent.name}.history.{agent.history}"
        yield _Operation(name, "send", agent, agent.history, messages.ended(agent))


def _operation(app: App, operation: _Operation) -> dict[str, Any]:
    place = f"#/channels/{operation.topic}"
    made: dict[str, Any] = {
        "action": operation.action,
        "channel": {"$ref": place},
        "messages": [{"$ref": f"{place}/messages/{operation.name}"}],
    }
    if operation.action == "receive":
        group = {"type": "string", "enum": [f"{app.name}.{operation.agent.name}"]}
        made["bindings"] = {"kafka": {"groupId": group, "bindingVersion": BINDING}}
    return made
