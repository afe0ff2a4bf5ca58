"""The effect of a changed file on each agent, compared without a claim with the open groups that the store holds
now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sluicegate.streams import formats
from sluicegate.streams.agent import Agent, App
from sluicegate.streams.aggregation.converting import Conversion
from sluicegate.streams.aggregation.rule import Rule, fingerprint
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.keys import CONVERT, DROP, ELSEWHERE, FINISH, FLUSH, REWIND, TOPICS, ChangeClass
from sluicegate.streams.operations.groups.cold_groups import parts
from sluicegate.streams.operations.groups.contents import PartitionContents, contents_of
from sluicegate.streams.operations.groups.shared_groups import shared_groups
from sluicegate.streams.ownership.beginning import idle_since
from sluicegate.streams.rules import AgentRule, rule_of
from sluicegate.streams.rules.changes import Change, changes, kind_of, policies_of
from sluicegate.streams.rules.document import document
from sluicegate.streams.rules.rewindable import why_not_rewound
from sluicegate.streams.windows.opening import groups_of
from sluicegate.streams.wording import counted

CHOICES = (FINISH, CONVERT, REWIND, FLUSH, DROP)
"""The policies that a deployment may have. Without a choice, groups are converted where they can be."""
ROWS_STAY = (
    "the rows of a table were added under the rule before, and a change cannot take them back under another; run the "
    "old file, or give the agent another name, under which it reads the table again"
)


class Holding(NamedTuple):
    """The state that the store holds of an agent: open groups, the number of partitions that have them, items that wait
    for slow handlers, and unsent rows. `fire` is the number of groups that end at once under the new rule; None:
    unknown."""

    groups: int = 0
    partitions: int = 0
    items: int = 0
    rows: int = 0
    fire: int | None = None

    @property
    def empty(self) -> bool:
        return not (self.groups or self.items or self.rows)

    @property
    def one(self) -> bool:
        return self.groups + self.items + self.rows == 1

    def __str__(self) -> str:
        parts = ((self.groups, "open group"), (self.items, "sealed item"), (self.rows, "unsent row"))
        return " and ".join(counted(number, noun) for number, noun in parts if number) or "nothing"


class PolicyOutcome(NamedTuple):
    """The effect of a policy on the open groups: `fire` of them fire at once. `refused` is the reason why the policy is
    impossible. Whether the records of groups can be read again (`rewind`) is judged only by the deployment."""

    groups: int
    fire: int | None
    refused: str | None


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """The plan of one agent. `old` None: the agent is added. `new` None: it is removed. `now` is the store's state in
    the partitions that go on. `left` is the store's state that no agent will process. Both are None when the store was
    not asked."""

    name: str
    old: AgentRule | None
    new: AgentRule | None
    changes: Sequence[Change]
    kind: ChangeClass | None
    outcomes: Mapping[str, PolicyOutcome]
    refused: Sequence[str]
    now: Holding | None
    left: Holding | None


def elsewhere(old: App, new: App) -> list[Change]:
    """The changes that mean another app or another store: nothing of the old one is carried over."""
    pairs = (("app", old.name, new.name), ("store", _address(old.store), _address(new.store)))
    return [Change(path, one, other, ELSEWHERE, ()) for path, one, other in pairs if one != other]


def of_the_file(old: App, new: App) -> list[str]:
    """The keys outside of the agents whose values differ. They take effect at the restart. Values may be secret."""
    keys = ("kafka", "accept_level", "auto_migrate", "allow_plaintext", "start_timeout", "http", "outbox", "timeouts")
    names = [key for key in keys if getattr(old, key) != getattr(new, key)]
    return [*names, "store"] if old.store != new.store and _address(old.store) == _address(new.store) else names


def planned(old: App, new: App, names: Sequence[str], choice: str | None, store: Store | None) -> list[AgentPlan]:
    """The plans of the agents with these names, in the order of the new file, then of the removed ones. `choice` is one
    of CHOICES; None: as `run` chooses. `store` is the old app's; None: it is not asked. Raises PersistenceError,
    ExpressionError, and the errors of `contents_of`."""
    before, after = ({agent.name: agent for agent in app.agents} for app in (old, new))
    moved = elsewhere(old, new)
    chosen = [name for name in {**after, **before} if name in names]
    return [
        _changed_agent(old.name, before[name], after[name], moved, choice, store)
        if name in before and name in after
        else _added_or_removed(old.name, before.get(name), after.get(name), store)
        for name in chosen
    ]


def _changed_agent(
    app: str, old: Agent, new: Agent, moved: Sequence[Change], choice: str | None, store: Store | None
) -> AgentPlan:
    differences = [*moved, *changes(document(old), document(new))]
    going_on = [topic for topic in old.topics if topic in new.topics and not moved]
    gone = [topic for topic in old.topics if topic not in going_on]
    now = None if store is None else _holding(store, app, old, new, going_on)
    rest = None if store is None else _holding(store, app, old, None, gone, buffer=not going_on)
    policies = policies_for(old, new, differences)
    judged = {name: _outcome(name, policies, now) for name in CHOICES} if now and old.grouped and not moved else {}
    why_not = why_not_rewound(old, new)
    if REWIND in judged and why_not is not None:
        judged[REWIND] = judged[REWIND]._replace(refused=why_not)
    refused = [] if moved else _refused(old, policies, choice, differences, now)
    if refused and choice == REWIND and why_not is not None:
        refused = [f"--open rewind: {why_not}"]
    refused += _leaving("nothing is carried over" if moved else f"no longer reads {', '.join(gone)}", rest)
    kind = kind_of(differences) if differences else None
    return AgentPlan(old.name, rule_of(old), rule_of(new), differences, kind, judged, refused, now, rest)


def _added_or_removed(app: str, old: Agent | None, new: Agent | None, store: Store | None) -> AgentPlan:
    """The plan of an agent that is in only one of the files."""
    before, after = (None if agent is None else rule_of(agent) for agent in (old, new))
    rest = _holding(store, app, old, None, old.topics) if old is not None and store is not None else None
    name = old.name if old is not None else new.name if new is not None else ""
    return AgentPlan(name, before, after, (), TOPICS, {}, _leaving("is removed", rest), None, rest)


def plan_document(plan: AgentPlan, policy: str | None = None) -> dict[str, Any]:
    """The plan as JSON, with the effect on open groups under this policy, or under each policy."""
    changes = [
        {"path": change.path, "from": change.old, "to": change.new, "class": change.kind.text}
        for change in plan.changes
    ]
    document: dict[str, Any] = {"name": plan.name}
    document |= {"from": plan.old and plan.old.short, "to": plan.new and plan.new.short}
    document |= {"class": plan.kind and plan.kind.text, "changes": changes}
    chosen = {name: outcome for name, outcome in plan.outcomes.items() if policy in (None, name)}
    document["open"] = {name: outcome._asdict() for name, outcome in chosen.items()}
    return document | {
        name: None if holding is None else {"groups": holding.groups, "items": holding.items, "rows": holding.rows}
        for name, holding in (("now", plan.now), ("left", plan.left))
    }


def policies_for(old: Agent, new: Agent, differences: Sequence[Change]) -> tuple[str, ...]:
    """The policies of CHOICES that suit the changes."""
    suited = policies_of([difference for difference in differences if difference.kind != TOPICS])
    unfit = (REWIND,) if why_not_rewound(old, new) else ()
    return tuple(choice for choice in CHOICES if choice in suited and choice not in unfit)


def _outcome(policy: str, policies: Sequence[str], now: Holding) -> PolicyOutcome:
    refused = None if policy in policies else _why_not(policy, policies)
    fires = {FINISH: 0, CONVERT: now.fire, REWIND: 0, FLUSH: now.groups, DROP: 0}[policy]
    return PolicyOutcome(now.groups, None if refused else fires, refused)


def _why_not(policy: str, policies: Sequence[str]) -> str:
    if not policies:
        return "the shared buffer cannot be read under the new rule; run the old file until it is empty"
    what = "they cannot go on under the new rule" if policy == CONVERT else f"--open {policy} does not suit the change"
    return f"{what}; add {' or '.join(f'--open {name}' for name in policies)}"


def _refused(
    old: Agent, policies: Sequence[str], choice: str | None, differences: Sequence[Change], now: Holding | None
) -> list[str]:
    """The reasons why the agent cannot start with its open groups. If the store was not asked, it is assumed to have
    some."""
    wanted = choice or CONVERT
    if wanted in policies or not differences or not old.grouped or (now is not None and not now.groups):
        return []
    groups = "where groups are open" if now is None else counted(now.groups, "open group")
    named = [
        difference.path for difference in differences if wanted not in difference.policies and difference.kind != TOPICS
    ]
    why = ROWS_STAY if old.over_table else _why_not(wanted, policies)
    return [f"{groups}, {', '.join(named)} changed: {why}"]


def _leaving(what: str, rest: Holding | None) -> list[str]:
    if rest is None or rest.empty:
        return []
    stay, them, are = ("stays", "it", "it is") if rest.one else ("stay", "them", "they are")
    return [
        f"{what}: {rest} {stay} in the store, and no agent fires or sends {them}; run the old file until {are} gone"
    ]


def _holding(
    store: Store, app: str, old: Agent, new: Agent | None, topics: Sequence[str], buffer: bool = True
) -> Holding:
    """The store's state of the old agent in the partitions of these topics, and in its shared buffer. `new` is the
    agent whose rule the groups would continue under, where they can."""
    goes_on = (
        new is not None
        and new.scope == "partition"
        and CONVERT in policies_for(old, new, changes(document(old), document(new)))
    )
    groups = partitions = items = rows = fire = 0
    for partition in store.partitions(app):
        view = store.read(partition) if partition.agent == old.name and partition.topic in topics else None
        if view is None:
            continue
        contents = contents_of(old, partition, view)
        same = _judge_deployed(old, contents)
        rows, items = rows + view.unsent, items + len(contents.sealed.by_number)
        count = contents.open_groups
        groups, partitions = groups + count, partitions + bool(count)
        if goes_on and same and new is not None:
            fire += sum(_ending(part, new) for part in parts(contents, store))
    if old.scope == "shared" and buffer:
        buffered = shared_groups(store.buffer, app, old, 0.0)
        groups, partitions = groups + len(buffered), partitions + len({batch.partition for batch in buffered})
    return Holding(groups, partitions, items, rows, fire if goes_on else None)


def _ending(contents: PartitionContents, new: Agent) -> int:
    """The number of groups that end before the next record when they are converted: by the count, a limit, or a
    deadline that has passed."""
    now, groups, count = contents.claim.store_time, groups_of(Rule(new, formats.reads(new))), contents.open_groups
    convert = Conversion(contents.groups, groups)
    for key in list(contents.groups.states):
        convert.move(key)
    groups.idle = idle_since(contents.claim.source, groups.rule, count, now) or 0.0
    return len(
        {key for key, _ in groups.judge()} | {key for key, state in groups.states.items() if groups.due(state) <= now}
    )


def _judge_deployed(old: Agent, contents: PartitionContents) -> bool:
    """Checks that the old rule filled the groups. A partition may still be at an earlier version. Raises
    ConfigurationError where no version is known and a file other than the old one filled the groups."""
    newest = contents.groups
    if not (newest.states or newest.cold.count) or contents.rule.fingerprint == fingerprint(old):
        return True
    if contents.claim.source is None or contents.claim.source.version == 0:
        topic, number = contents.partition[2:]
        raise ConfigurationError(
            f"agent {old.name}: the open groups of {topic}/{number} were filled under another key, compute, format or "
            "scope than the file of --against has; name the file that runs"
        )
    return False


def _address(url: str) -> str:
    """The URL without user and password. These may change while the store stays the same."""
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"
