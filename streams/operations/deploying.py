"""Deployments: which version the rule of a file becomes, and whether all partitions run it."""

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from msgspec.structs import replace

from sluicegate.streams.agent import Agent, App
from sluicegate.streams.contracts.stores import Reader, Store
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.errors import ConfigurationError, Fenced
from sluicegate.streams.journal.amending import Person
from sluicegate.streams.journal.journal import ATTEMPTS, back_off
from sluicegate.streams.keys import CONVERT, DROP, FINISH, FLUSH, REWIND
from sluicegate.streams.operations.left_behind import left_behind, texts
from sluicegate.streams.operations.planning import planned
from sluicegate.streams.operations.replaying.rewind_check import RewindCheck
from sluicegate.streams.rules import rule_of
from sluicegate.streams.rules.versions import REFUSE, UNVERSIONED, Deployed, RuleVersion, settled, with_rule
from sluicegate.streams.topic_names import reads
from sluicegate.streams.versions import catalogue
from sluicegate.streams.versions.catalogue import Catalogue
from sluicegate.streams.wording import counted

MOST_OLDER = 2
"""The most generations of a partition that may still finish beside the newest one when another change is deployed."""


@dataclass(frozen=True, slots=True)
class DeployOptions:
    """`policy` None: open groups are converted where they can be. `ends`: FLUSH or DROP for groups that cannot be
    converted, as `run --flush` and `run --drop`. `again`: a file whose rule is an earlier version becomes a new
    version. `expect`: the version that must run now. `leave`: open groups of removed agents and topics stay in the
    store. `rewinds` judges the policy `rewind`, which is refused without it."""

    policy: str | None = None
    ends: str | None = None
    again: bool = True
    expect: int | None = None
    leave: bool = False
    rewinds: RewindCheck | None = None


class AgentStep(NamedTuple):
    """What a deployment does to one agent. `before` and `after` are versions; equal when nothing changes."""

    name: str
    before: int
    after: int
    digest: str
    policy: str


def deployed_app(app: App, deployments: Catalogue) -> App:
    """The app with its deployed agents, under their deployed rules."""
    agents = (deployed.agent(deployed.number) for deployed in deployments.values())
    return _with_agents(app, [agent for agent in agents if agent is not None])


def settled_app(app: App, deployments: Catalogue) -> App:
    """The app with the versions that its deployments chose for `schema: SUBJECT:latest`."""
    return _with_agents(app, [settled(agent, deployments.get(agent.name, UNVERSIONED)) for agent in app.agents])


def _with_agents(app: App, agents: Sequence[Agent]) -> App:
    return dataclasses.replace(app, agents=tuple(agents))


def deploy(
    store: Store, app: App, names: Sequence[str], options: DeployOptions, person: Person
) -> tuple[list[AgentStep], Catalogue]:
    """Makes the rules of these agents the ones that run, in one commit for all of them. Raises ConfigurationError for
    choices that must be made first, and PersistenceError; then the same call finds out whether the rules run."""
    for attempt in range(ATTEMPTS):
        deployments = catalogue.read(store, app.name)
        current = app if options.again else settled_app(app, deployments)
        steps = _steps(store, current, names, options, deployments)
        if all(step.before == step.after for step in steps):
            return steps, deployments

        def change(
            before: Catalogue,
            at: float,
            deployments: Catalogue = deployments,
            steps: Sequence[AgentStep] = steps,
            current: App = current,
        ) -> Catalogue:
            if before != deployments:
                raise Fenced("another deployment was made meanwhile")
            return _changed(store, current, before, steps, person, at)

        try:
            return steps, catalogue.deploy(store, app.name, f"{person.token}-{attempt}", person.who, change)
        except Fenced:
            if attempt == ATTEMPTS - 1:
                raise
            back_off(attempt)
    raise AssertionError


def note_file(store: Store, app: App, names: Sequence[str], person: Person) -> None:
    """Records the keys of a starting run's file that are no part of a rule, so that a plan can compare with them. If
    other commands deploy all the time, the next start records them. Raises PersistenceError."""

    def change(before: Catalogue, at: float) -> Catalogue:
        after = dict(before)
        for agent in app.agents:
            known = before.get(agent.name, UNVERSIONED)
            ruled = known.agent(known.number)
            if agent.name in names and ruled is not None:
                noted = replace(known.versions[-1], agent=with_rule(agent, ruled))
                after[agent.name] = Deployed((*known.versions[:-1], noted))
        return after

    for attempt in range(ATTEMPTS):
        deployments = catalogue.read(store, app.name)
        if change(deployments, 0.0) == deployments:
            return
        with suppress(Fenced):
            catalogue.deploy(store, app.name, f"{person.token}-file-{attempt}", person.who, change)
            return
        back_off(attempt)


def planned_steps(store: Store, app: App, names: Sequence[str], options: DeployOptions) -> list[AgentStep]:
    """What `deploy` would do now. Raises as `deploy`."""
    deployments = catalogue.read(store, app.name)
    return _steps(store, app if options.again else settled_app(app, deployments), names, options, deployments)


def _steps(
    store: Store, app: App, names: Sequence[str], options: DeployOptions, deployments: Catalogue
) -> list[AgentStep]:
    agents = [agent for agent in app.agents if agent.name in names]
    refused = [text for agent in agents for text in _unexpected(agent.name, deployments, options)]
    if not options.leave:
        refused += [f"{text}, or add --leave" for text in texts(app, left_behind(store, app)).values()]
    steps = []
    for agent in agents:
        before = deployments.get(agent.name, UNVERSIONED)
        digest = rule_of(agent).digest
        if digest == before.digest or (not options.again and before.number_of(digest) is not None):
            steps.append(AgentStep(agent.name, before.number, before.number, before.digest, ""))
            continue
        policy, why = _policy(store, app, agent, before, options)
        refused += why
        steps.append(AgentStep(agent.name, before.number, before.number + 1, digest, policy))
    if refused:
        raise ConfigurationError("; ".join(refused))
    return steps


def _unexpected(name: str, deployments: Catalogue, options: DeployOptions) -> list[str]:
    number = deployments.get(name, UNVERSIONED).number
    if options.expect is None or options.expect == number:
        return []
    return [f"agent {name}: version {number} runs, --expect says {options.expect}; plan again"]


def _policy(store: Store, app: App, agent: Agent, before: Deployed, options: DeployOptions) -> tuple[str, list[str]]:
    """The policy for the groups that are open under `before`, and the reasons why it is refused."""
    old = before.agent(before.number)
    plain = not options.again and options.policy is None and options.ends is None
    wanted = agent.on_change if plain else ""
    if wanted not in ("", REFUSE):
        options = dataclasses.replace(options, policy=wanted, ends=None, again=False)
    if old is None:
        return options.policy or options.ends or REFUSE, []
    [plan] = planned(_with_agents(app, [old]), _with_agents(app, [agent]), [agent.name], options.policy, store)
    open_now = plan.now.groups if plan.now is not None else 0
    suited = [name for name, outcome in plan.outcomes.items() if not outcome.refused]
    if wanted == REFUSE and open_now:
        open_groups = f"{counted(open_now, 'group')} open under the rule that runs"
        return REFUSE, [
            f"agent {agent.name}: on_change is refuse, and there are {open_groups}: deploy the file with --open"
        ]
    policy = _chosen(suited, open_now, options) if suited or not (plan.outcomes and open_now) else None
    if policy is None:
        named = f"{'on_change:' if wanted else '--open'} {options.policy}"
        return REFUSE, [f"agent {agent.name}: {text}" for text in plan.refused] or [
            f"agent {agent.name}: {named} does not suit the change: {_known(suited)}"
        ]
    return policy, [*_too_many(store, app, agent, policy), *_not_rewound(policy, old, before, options.rewinds)]


def _chosen(suited: Sequence[str], open_now: int, options: DeployOptions) -> str | None:
    if options.policy is not None:
        return options.policy if options.policy in suited or not suited else None
    if CONVERT in suited or not suited:
        return CONVERT
    if options.ends is not None:
        return options.ends
    if open_now:
        return None
    return FINISH if FINISH in suited else REFUSE


def _not_rewound(policy: str, old: Agent, before: Deployed, rewinds: RewindCheck | None) -> list[str]:
    if policy != REWIND:
        return []
    if rewinds is None:
        return [f"agent {old.name}: the input topics cannot be read here, so --open rewind cannot be judged"]
    return [f"agent {old.name}: --open rewind: {text}" for text in rewinds.refused(old, before)]


def _known(suited: Sequence[str]) -> str:
    return f"it takes {', '.join(suited)}" if suited else "the shared buffer must be empty first"


def _too_many(store: Store, app: App, agent: Agent, policy: str) -> list[str]:
    """The reason why a partition cannot have one more generation; empty: it can."""
    if policy in (FLUSH, DROP):
        return []
    for partition in rows(store, app.name, agent.name):
        view = store.read(partition)
        source = view.claim.source if view is not None else None
        if source is not None and len(source.older) >= MOST_OLDER:
            oldest = source.older[0].version
            return [
                f"agent {agent.name}: groups of {len(source.older)} earlier versions still finish in "
                f"{partition.topic}/{partition.number}, the oldest of version {oldest}; wait until they have ended, "
                "end them with `sluicegate groups fire`, or add --open flush"
            ]
    return []


def _changed(
    store: Reader, app: App, before: Catalogue, steps: Sequence[AgentStep], person: Person, at: float
) -> Catalogue:
    after = dict(before)
    agents = {agent.name: agent for agent in app.agents}
    for step in steps:
        if step.before == step.after:
            continue
        known = before.get(step.name, UNVERSIONED)
        version = RuleVersion(step.after, step.digest, step.policy, at, person.who, person.why, agents[step.name])
        after[step.name] = Deployed(_trimmed(store, app.name, step.name, (*known.versions, version)))
    return after


def _trimmed(store: Reader, app: str, agent: str, versions: Sequence[RuleVersion]) -> tuple[RuleVersion, ...]:
    """The versions. Rules that no partition needs any more are removed from them."""
    needed = min((_version(store, row) for row in rows(store, app, agent)), default=versions[-1].number)
    needed = min(needed, versions[-1].number - 1)
    return tuple(version if version.number >= needed else replace(version, agent=None) for version in versions)


def rows(store: Reader, app: str, agent: str) -> list[Partition]:
    """The partitions of the agent that have a claim row."""
    return [partition for partition in store.partitions(app) if partition.agent == agent]


def _version(store: Reader, partition: Partition) -> int:
    view = store.read(partition)
    return view.claim.source.version if view is not None and view.claim.source is not None else 0


class Progress(NamedTuple):
    """The progress of one agent: how many of its partitions run the version, and how many still have groups of earlier
    versions."""

    name: str
    version: int
    partitions: int
    switched: int
    finishing: int


def progress(store: Reader, app: App, deployments: Mapping[str, Deployed]) -> list[Progress]:
    """Raises PersistenceError."""
    made = []
    for agent in app.agents:
        number = deployments.get(agent.name, UNVERSIONED).number
        views = [store.read(row) for row in rows(store, app.name, agent.name) if reads(agent.topics, row.topic)]
        sources = [view.claim.source for view in views if view is not None and view.claim.source is not None]
        switched = sum(source.version >= number for source in sources)
        made.append(Progress(agent.name, number, len(sources), switched, sum(bool(source.older) for source in sources)))
    return made
