"""The changes that a deployment of the run's current file would make."""

from typing import Any

from sluicegate.streams.agent import App
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.operations import planning
from sluicegate.streams.operations.deploying import deployed_app
from sluicegate.streams.versions import catalogue


def plan_of_the_file(running: App, new: App, store: Store) -> dict[str, Any]:
    """As `sluicegate plan --no-replay`: `file` are the keys beside the agents that differ from the run. Raises
    PersistenceError and ChangelogIncomplete."""
    moved = planning.elsewhere(running, new)
    if moved:
        return {"error": f"the file names another {moved[0].path}: nothing of this run is carried over"}
    old = deployed_app(new, catalogue.read(store, running.name))
    names = [agent.name for agent in (*new.agents, *old.agents)]
    plans = planning.planned(old, new, names, None, store)
    return {
        "agents": [
            planning.plan_document(plan) for plan in plans if plan.changes or plan.old is None or plan.new is None
        ],
        "refused": [f"{plan.name}: {text}" for plan in plans for text in plan.refused],
        "file": planning.of_the_file(running, new),
    }
