"""When groups of a shared buffer are due. Their workers poll for it, so they do not know it in advance."""

from math import inf

from sluicegate.streams.agent import Agent
from sluicegate.streams.contracts.leased import AggregatorBuffer
from sluicegate.streams.operations.groups.shared_groups import shared_groups
from sluicegate.streams.shared.shared_leases import LOOK_EVERY


def shared_due_in(buffer: AggregatorBuffer, app: str, agent: Agent, now: float) -> float:
    """The seconds until a group ends by a deadline or has an early result; infinity if none will. `now` is in seconds
    since 1970. What is due now is found by the next poll."""
    groups = shared_groups(buffer, app, agent, now)
    waits = [wait for group in groups for wait in (group.fires_in, group.next_result) if wait is not None]
    return min((wait if wait > 0 else wait + LOOK_EVERY for wait in waits if wait > -LOOK_EVERY), default=inf)
