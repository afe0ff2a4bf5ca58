"""Changes a partition to another version of its agent's rule, at a claim, before the first record (docs/protocol.md,
Change of the rule).

The row of the partition has its version, which never goes back: a worker with an earlier version does not take the
partition (RuleBehind).
"""

from typing import NamedTuple

from msgspec.structs import replace

from sluicegate.streams.aggregation.rule import earlier_agent
from sluicegate.streams.contracts.values import Generation, Partition, Source
from sluicegate.streams.errors import ConfigurationError, RuleBehind
from sluicegate.streams.keys import CONVERT, FINISH, REWIND
from sluicegate.streams.ownership.setting import AgentRuntime
from sluicegate.streams.rules.stored import agent_text
from sluicegate.streams.rules.versions import REFUSE, policy_of


class Switch(NamedTuple):
    """The generations after a claim. `outgoing` is the generation that accepts no new groups from now on. None: its
    groups continue under the rule of this worker."""

    older: tuple[Generation, ...] = ()
    outgoing: Generation | None = None
    generation: int = 0

    @property
    def every(self) -> tuple[Generation, ...]:
        return self.older if self.outgoing is None else (*self.older, self.outgoing)


def judged(before: Source | None, setting: AgentRuntime, partition: Partition) -> Switch:
    """Decide what happens to the open groups of a row. Raises RuleBehind if the row has a later version than this
    worker."""
    if before is None:
        return Switch()
    deployed = setting.deployed
    if before.version > deployed.number:
        raise RuleBehind(
            f"{partition.topic}/{partition.number} is at version {before.version} of the rule, this worker at "
            f"{deployed.number}; it reads the rule again"
        )
    policy = setting.on_rule_change if before.version == deployed.number else deployed.policy_since(before.version)
    if deployed.agent(before.version) is None and policy in (FINISH, CONVERT, REWIND):
        policy = REFUSE  # of its rule only the layout of the groups is known
    older = before.older
    if before.version < deployed.number:  # after a crash, groups may be left whose end or conversion had begun
        older = tuple(replace(generation, policy=policy_of((generation.policy, policy))) for generation in older)
    same = before.rule == setting.rule.fingerprint
    if same and (before.version in (0, deployed.number) or policy in (CONVERT, REFUSE)):
        return Switch(older, None, before.generation)
    agent = deployed.agent(before.version) or earlier_agent(setting.agent, before.rule)
    previous = Generation(before.generation, before.version, policy, agent_text(agent), before.idle)
    return Switch(older, previous, before.generation + 1)


def refuse_left(previous: Generation, groups: int, partition: Partition) -> None:
    """Raises ConfigurationError if no policy decides what happens to the open groups."""
    if previous.policy == REFUSE and groups:
        raise ConfigurationError(
            f"agent {partition.agent}: key, compute, format or scope changed while {groups} groups of "
            f"{partition.topic}/{partition.number} are open; run once with --flush (fire them as they are) or --drop"
        )
