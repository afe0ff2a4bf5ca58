"""The AsyncAPI document of an app: a channel for each topic, an operation for each agent and topic, and one for each
schedule.

It follows AsyncAPI 3.0.0 and version 0.5.0 of its bindings for Kafka.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from sluicegate.streams.agent import Agent, App, Clusters, RecurringMessage
from sluicegate.streams.asyncapi import messages
from sluicegate.streams.topic_names import CLUSTER, cluster_of, pattern_of, plain

VERSION = "3.0.0"


class _Operation(NamedTuple):
    """`name` is unique in the document. The message has the same name. `agent` is the name of the agent, or
    `schedules`. `topic` is the name of the channel, and of its topic unless there is a `pattern` of topics."""

    name: str
    action: str
    agent: str
    topic: str
    message: dict[str, Any]
    pattern: str | None = None

    @property
    def channel(self) -> dict[str, Any]:
        """The channel, without its messages. An address of null is not known beforehand."""
        if self.pattern is None:
            return {"address": plain(self.topic)}
        return {"address": None, "description": f"Each topic whose whole name matches {self.pattern}"}


def document(app: App, version: str) -> dict[str, Any]:
    """The document of the app, with the app's version `version`; ready for JSON. Raises ValueError for an Avro output
    without a schema."""
    operations = [operation for agent in app.agents for operation in _operations(agent)]
    operations += [_scheduled(schedule) for schedule in app.schedules]
    servers = {cluster: _brokers(app.brokers.of(cluster), app.brokers.name) for cluster in app.brokers.names}
    channels: dict[str, Any] = {}
    for operation in operations:
        known = channels.setdefault(operation.topic, {**operation.channel, "messages": {}})
        known["messages"][operation.name] = {"$ref": f"#/components/messages/{operation.name}"}
    for operation in operations:
        cluster = cluster_of(operation.pattern or operation.topic)
        if own := servers.get(cluster):
            channels[operation.topic]["servers"] = [{"$ref": f"#/servers/{name}"} for name in own]
    content = {
        "asyncapi": VERSION,
        "info": {"title": app.name, "version": version},
        "defaultContentType": "application/json",
        "servers": {name: server for own in servers.values() for name, server in own.items()},
        "channels": channels,
        "operations": {operation.name: _operation(app, operation) for operation in operations},
        "components": {
            "messages": {operation.name: {"name": operation.name, **operation.message} for operation in operations}
        },
    }
    return {name: value for name, value in content.items() if value}


def _brokers(kafka: Clusters, default: str) -> dict[str, Any]:
    """The servers of a cluster by name. With one cluster they are kafka-1 and so on."""
    hosts, name = str(kafka.get("bootstrap.servers", "")), kafka.name if default else "kafka"
    if not hosts or hosts == "embedded":
        return {}
    secure = "SSL" in str(kafka.get("security.protocol", "")).upper()
    protocol = "kafka-secure" if secure else "kafka"
    return {f"{name}-{at}": {"host": host.strip(), "protocol": protocol} for at, host in enumerate(hosts.split(","), 1)}


def _word(channel: str) -> str:
    """The name as part of a key of the document, where @ is not allowed."""
    return channel.replace(CLUSTER, "_at_")


def _operations(agent: Agent) -> Iterator[_Operation]:
    for number, topic in enumerate(agent.topics):
        pattern = pattern_of(topic)
        channel = topic if pattern is None else f"{agent.name}.pattern-{number + 1}"
        name, message = f"{agent.name}.receive.{_word(channel)}", messages.record(agent, topic)
        yield _Operation(name, "receive", agent.name, channel, message, pattern)
    sent = set[str]()
    for to in agent.outputs:
        if to.topic not in sent:  # of several routes to a topic the first one is shown
            sent.add(to.topic)
            yield _Operation(
                f"{agent.name}.send.{_word(to.topic)}", "send", agent.name, to.topic, messages.result(agent, to)
            )
    if agent.dead_letters:
        name = f"{agent.name}.dead.{_word(agent.dead_letters)}"
        yield _Operation(name, "send", agent.name, agent.dead_letters, messages.dead_letter(agent))
    if agent.history:
        name = f"{agent.name}.history.{_word(agent.history)}"
        yield _Operation(name, "send", agent.name, agent.history, messages.ended(agent))


def _scheduled(schedule: RecurringMessage) -> _Operation:
    """The operation of a schedule. Its name has two parts and an agent's operation has three or more, so the names
    never collide."""
    name = f"schedules.{schedule.name.replace('.', '_dot_')}"
    return _Operation(name, "send", "schedules", schedule.topic, messages.scheduled(schedule))


def _operation(app: App, operation: _Operation) -> dict[str, Any]:
    place = f"#/channels/{operation.topic}"
    content: dict[str, Any] = {
        "action": operation.action,
        "channel": {"$ref": place},
        "messages": [{"$ref": f"{place}/messages/{operation.name}"}],
    }
    if operation.action == "receive":
        group = {"type": "string", "enum": [f"{app.name}.{operation.agent}"]}
        content["bindings"] = {"kafka": {"groupId": group, "bindingVersion": messages.BINDING}}
    return content
