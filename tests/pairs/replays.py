"""What `replay` says about the accepted pairs: for each command how many it serves, and how many it refuses for which
reason."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

from sluicegate.streams.agent import Agent
from sluicegate.streams.operations.rebuilding.rebuild import unaccountable
from sluicegate.streams.operations.replaying.rewinding import uncorrectable
from sluicegate.streams.shadow.refusals import unshadowable
from tests.pairs.features import pairs
from tests.pairs.judge import file_with, verdict

LIST = Path(__file__).with_name("replays.txt")
"""The table of all commands."""
NOTHING = "nothing to replay: "
"""Begins the reason of an agent that leaves nothing from which it could be replayed."""


def _shadow(agent: Agent) -> str | None:
    return unshadowable(agent, _calls(agent))


def _rewind(agent: Agent) -> str | None:
    return uncorrectable(agent, _calls(agent))


def _calls(agent: Agent) -> bool:
    """Whether the command has --call-handlers."""
    return agent.handler is not None and agent.aggregation is not None


COMMANDS: Mapping[str, Callable[[Agent], str | None]] = {
    "replay --rebuild": unaccountable,
    "replay --shadow": _shadow,
    "replay --rewind": _rewind,
}


def _nothing(agent: Agent) -> str | None:
    """Why no topic holds anything of what the agent did."""
    if agent.handler is None:
        return None
    if agent.aggregation is None:
        return "a handler of single messages"
    return None if agent.history else "a handler of groups without `history`"


@cache
def agents() -> Mapping[str, tuple[Agent, ...]]:
    """By the name of the pair: the agents that an accepted file makes of it. A pair counts only where each of the two
    alone is accepted."""
    made = dict[str, tuple[Agent, ...]]()
    for kind, *both in pairs():
        file = file_with(kind, *both)
        if file is not None and file.app is not None and not any(verdict(kind, name) for name in both):
            made[f"{kind}, {' + '.join(both)}"] = file.app.agents
    return made


def answers(command: str) -> Iterator[tuple[str, str]]:
    """Each pair with the reason why one of its agents is refused; an empty one: all of them are served."""
    for name, item in agents().items():
        why = next((NOTHING + why for agent in item if (why := _nothing(agent))), None)
        yield name, why or next((why for agent in item if (why := COMMANDS[command](agent))), "")


@cache
def figures(command: str) -> Counter[str]:
    """How many pairs have each reason."""
    return Counter(why for _, why in answers(command))


def share(command: str) -> float:
    """The share of the pairs that are served, of those that have something to replay."""
    counts = figures(command)
    return counts[""] / sum(number for why, number in counts.items() if not why.startswith(NOTHING))


def table() -> Iterator[str]:
    """The lines of the list."""
    for command in COMMANDS:
        counts = figures(command)
        yield f"{command}: {share(command):.1%} of the pairs that have something to replay"
        yield f"  {counts['']:5} served"
        yield from (
            f"  {number:5} {why}" for why, number in sorted(counts.items(), key=lambda one: (-one[1], one[0])) if why
        )
