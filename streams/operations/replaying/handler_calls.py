"""Calls the handler of an agent for the groups of a replay. The messages of the handler are returned and go to no
topic."""

import random
import time
from collections.abc import Sequence

from sluicegate.streams import formats
from sluicegate.streams.agent import Agent, App
from sluicegate.streams.aggregation.events import Cancelled, Event, Fire, Scheduled
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.calling.pool import InlinePool
from sluicegate.streams.engine.build import output_target
from sluicegate.streams.errors import ConfigurationError, HandlerFailed, HandlerStopped, SystemNotReady
from sluicegate.streams.handlers.failures import Policy
from sluicegate.streams.handlers.handling import Handling
from sluicegate.streams.handlers.values import CommitCalls, Message
from sluicegate.streams.shadow.judge import GroupHandler

PLACE = ("", 0)
"""Handling keeps failures by partition. Here each group is handled to its end before the next one."""


class ReplayHandling(Handling):
    """Marks the handlers' calls as calls of a replay."""

    def _call(self, item: Message | Fire, calls: CommitCalls) -> Sequence[Event]:
        return super()._call(item, calls._replace(replay=True))


def group_handler(app: App, agent: Agent) -> GroupHandler:
    """A function that calls the handler as a worker does: up to `attempts` times, but without pauses; an invalid
    message fails its group. The function raises SystemNotReady in an outage, and ConfigurationError when a handler with
    `then: stop` fails or a handler schedules messages. Raises ConfigurationError for a handler that cannot be
    imported."""
    handler = agent.handler
    if handler is None:
        raise ConfigurationError(f"agent {agent.name} has no handler")
    reads = formats.reads(agent)
    outputs = output_target(app, agent, reads)
    policy = Policy(handler, random.random, time.monotonic)
    handling = ReplayHandling(agent, handler, Rule(agent, reads), reads, outputs, policy, InlinePool(1))

    def handle(fire: Fire, id: str) -> Sequence[Event]:
        events: Sequence[Event] | None = None
        while events is None:
            events = _attempt(handling, policy, agent, fire, id)
        handling.forget(PLACE)
        if any(isinstance(event, Scheduled | Cancelled) for event in events):
            raise ConfigurationError(
                f"agent {agent.name}: its handler schedules or cancels timeouts, and a replay does neither"
            )
        return events

    return handle


def _attempt(handling: Handling, policy: Policy, agent: Agent, fire: Fire, id: str) -> Sequence[Event] | None:
    """The result of one attempt. None: the handler failed, and is to be called again."""
    try:
        return handling.run([fire], lambda _: id, None, PLACE)
    except HandlerStopped as error:
        raise ConfigurationError(f"agent {agent.name}: {error}") from error
    except HandlerFailed as error:
        if policy.away:
            raise SystemNotReady(f"agent {agent.name}: {error}. Run the same command again") from error
        return None
