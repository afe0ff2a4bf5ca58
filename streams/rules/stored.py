"""Agents in the store, as JSON. The store keeps the schemas of a format under the name `avro`, which every build
reads."""

from typing import Any

import msgspec

from sluicegate.streams.agent import Agent

StoredAgent = dict[str, Any]
_OURS, _STORED = "schema", "avro"


def agent_text(agent: Agent) -> str:
    """The agent as the store keeps it."""
    return msgspec.json.encode(stored(msgspec.to_builtins(agent))).decode()


def agent_of(text: str) -> Agent:
    """Raises msgspec.MsgspecError."""
    return msgspec.convert(read(msgspec.json.decode(text)), Agent)


def stored(agent: StoredAgent) -> StoredAgent:
    """The fields of an agent under their stored names, in the same order."""
    return _renamed(agent, _OURS, _STORED)


def read(agent: StoredAgent) -> StoredAgent:
    """The opposite of `stored`."""
    return _renamed(agent, _STORED, _OURS)


def _renamed(agent: StoredAgent, before: str, after: str) -> StoredAgent:
    def renamed(fields: StoredAgent) -> StoredAgent:
        return {after if name == before else name: value for name, value in fields.items()}

    outputs = {"to": (to := agent.get("to")) and renamed(to), "routes": [*map(renamed, agent.get("routes", ()))]}
    return renamed(agent | {name: value for name, value in outputs.items() if name in agent})
