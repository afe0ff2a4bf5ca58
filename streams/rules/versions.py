"""The versions of an agent's rule, and what a change from one to another means for the open groups. Pure."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec

from sluicegate.schemas.options import Avro
from sluicegate.streams.agent import Agent, AgentSettings, Destination
from sluicegate.streams.keys import CONVERT, DROP, FILE, FINISH, FLUSH, REWIND, keys_of

REFUSE = "refuse"
"""The policy of a version that no group of another layout may meet: the partition is not claimed while one is open."""


class RuleVersion(msgspec.Struct, frozen=True):
    """One deployment of an agent. `number` counts from 1. `digest` is as in AgentRule. `policy` decides about the
    groups that are open under the version before. `at` is the store's time in seconds since 1970. `agent` None: no
    partition needs the rule any more, so only its digest is kept."""

    number: int
    digest: str
    policy: str
    at: float
    who: str
    why: str
    agent: Agent | None


class Deployed(NamedTuple):
    """The versions of one agent up to the one that runs, ascending. Empty: no version was recorded."""

    versions: tuple[RuleVersion, ...] = ()

    @property
    def number(self) -> int:
        """The version that runs; 0 when none was recorded."""
        return self.versions[-1].number if self.versions else 0

    @property
    def digest(self) -> str:
        return self.versions[-1].digest if self.versions else ""

    def agent(self, number: int) -> Agent | None:
        return next((version.agent for version in self.versions if version.number == number), None)

    def number_of(self, digest: str) -> int | None:
        """The newest version with this digest."""
        return next((version.number for version in reversed(self.versions) if version.digest == digest), None)

    def policy_since(self, number: int) -> str:
        """The policy for groups that are open under version `number`, in a partition that changes directly to the
        newest version. If a deployment in between fires, drops or rewinds a group, or lets it finish under its own
        rule, a later one does not convert it."""
        policies = [version.policy for version in self.versions if version.number > number]
        if number == 0:  # it is unknown which of them were made for these groups
            policies = policies[-1:]
        return policy_of(policies)


UNVERSIONED = Deployed()
"""No version was recorded."""


def policy_of(policies: Sequence[str]) -> str:
    """The effect of several deployments, in their order, on one open group. The records of a rewound group are read
    again under any later rule."""
    rewound = False
    for policy in policies:
        if policy == DROP or (policy == FLUSH and not rewound):
            return policy
        rewound = rewound or policy == REWIND
    for policy in (REWIND, FINISH, REFUSE):
        if policy in policies:
            return policy
    return CONVERT


FIELDS = (
    "aggregation",
    "key",
    "format",
    "schema",
    "let",
    "to",
    "routes",
    "unrouted",
    "lookups",
    "dedupe",
    "events",
    "changes",
    "times",
    *(name for name, entry, *_ in keys_of(AgentSettings) if entry.change != FILE),
)
"""The attributes of an agent that form its rule (identity.KEYS)."""


def with_rule(agent: Agent, ruled: Agent) -> Agent:
    """`agent` of the file, under the rule of `ruled`. The schema registry and the folder of writer's schemas come from
    the file."""
    merged = _with_origins(replace(agent, **{name: getattr(ruled, name) for name in FIELDS}), agent)
    registry = next((schema.registry for schema in _schemas(agent) if schema.registry), "")
    writers = agent.schema.writers if agent.schema is not None else None
    return replace(
        merged,
        schema=merged.schema and replace(_asking(merged.schema, registry), writers=writers),
        to=merged.to and _output(merged.to, registry),
        routes=tuple(_output(route, registry) for route in merged.routes),
    )


def _with_origins(merged: Agent, agent: Agent) -> Agent:
    """The topics of the origins come from the file, as all topics do."""
    rule, file = merged.aggregation, agent.aggregation
    if rule is None or rule.window is None or file is None or file.window is None:
        return merged
    return replace(merged, aggregation=replace(rule, window=replace(rule.window, origins=file.window.origins)))


def settled(agent: Agent, deployed: Deployed) -> Agent:
    """`agent` with the version that the deployment chose for `schema: SUBJECT:latest`, so that a restart keeps it."""
    ruled = deployed.agent(deployed.number)
    own, known = agent.schema, None if ruled is None else ruled.schema
    if own is None or known is None or not own.latest or not known.is_chosen or own.kind != known.kind:
        return agent
    return agent if own.subject_read != known.subject_read else replace(agent, schema=replace(own, pinned=known.pinned))


def _schemas(agent: Agent) -> list[Avro]:
    return [schema for schema in (agent.schema, *(to.schema for to in agent.outputs)) if schema is not None]


def _asking(avro: Avro, registry: str) -> Avro:
    return replace(avro, registry=registry) if avro.registry and registry else avro


def _output(to: Destination, registry: str) -> Destination:
    return to if to.schema is None else replace(to, schema=_asking(to.schema, registry))
