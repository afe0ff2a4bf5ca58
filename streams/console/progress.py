"""The progress of deployments and replays."""

from typing import Any

from sluicegate.streams.agent import App
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.operations.replaying import replays
from sluicegate.streams.operations.replaying.replays import Replay
from sluicegate.streams.rules.identity import SHOWN
from sluicegate.streams.rules.versions import RuleVersion
from sluicegate.streams.versions import catalogue

NEWEST = 20  # versions and replays of an agent


def progress(app: App, store: Store) -> list[dict[str, Any]]:
    """The versions and replays of each agent, newest first. Raises PersistenceError and ChangelogIncomplete."""
    known = catalogue.read(store, app.name)
    return [
        {
            "agent": agent.name,
            "versions": [_version(version) for version in reversed(known[agent.name].versions[-NEWEST:])]
            if agent.name in known
            else [],
            "replays": [
                _replay(app, store, agent.name, replay)
                for replay in reversed(replays.read(store, app.name, agent.name)[-NEWEST:])
            ],
        }
        for agent in app.agents
    ]


def _version(version: RuleVersion) -> dict[str, Any]:
    fields = {name: getattr(version, name) for name in ("number", "policy", "at", "who", "why")}
    return {**fields, "digest": version.digest[:SHOWN]}


def _replay(app: App, store: Store, agent: str, replay: Replay) -> dict[str, Any]:
    """`done` of `records` offsets are corrected; None if it is not known."""
    records = sum(source.end - source.begin for source in replay.sources)
    done: int | None = records
    if replay.state == "running":
        done = sum(_corrected(app, store, agent, replay, source) for source in replay.sources)
    elif replay.state == "abandoned":
        done = None
    fields = {name: getattr(replay, name) for name in ("number", "state", "into", "at", "who", "why")}
    corrections = sum(partition.corrections for partition in replay.corrected)
    return {**fields, "records": records, "done": done, "corrections": corrections}


def _corrected(app: App, store: Store, agent: str, replay: Replay, source: replays.ReplaySource) -> int:
    """The number of corrected offsets of one input partition."""
    view = store.read(replays.private(app.name, agent, replay.number, source))
    offset = source.begin if view is None else view.claim.offset
    return max(0, min(source.end, offset) - source.begin)
