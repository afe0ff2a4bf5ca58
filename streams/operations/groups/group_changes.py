"""Operations of commands and the console on open groups of any scope: select one by name, show it, fire it and drop
it."""

import base64
from collections.abc import Sequence

from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.results import rfc3339
from sluicegate.streams.contracts.leased_values import SealedBatch
from sluicegate.streams.contracts.stores import OutputFacts, Store
from sluicegate.streams.engine.following import outdated, running
from sluicegate.streams.errors import ConfigurationError, RestartNeeded
from sluicegate.streams.journal.amending import Person
from sluicegate.streams.journal.journal import note
from sluicegate.streams.operations.groups import open_groups, shared_groups
from sluicegate.streams.operations.groups.contents import place_of
from sluicegate.streams.operations.groups.open_groups import OpenGroup
from sluicegate.streams.rules.versions import UNVERSIONED
from sluicegate.streams.units import moment
from sluicegate.streams.versions import catalogue


def require_groups(agent: Agent) -> None:
    """Raises ConfigurationError for an agent that never has a group."""
    if not agent.grouped:
        does = "forwards each record" if agent.forwards else "hands each record to its handler"
        does = "copies each record under another key" if agent.rekeys else does
        raise ConfigurationError(
            f"agent {agent.name} has no groups: it {does}; only an agent with `aggregate` has groups"
        )


def _require_no_table(agent: Agent) -> None:
    """Raises ConfigurationError for an agent whose groups cannot end by hand."""
    if agent.over_table:
        raise ConfigurationError(
            f"agent {agent.name}: its groups have the rows of a table, and a later change could not take them "
            "back from one that ended; under another name the agent reads the table again"
        )


def under_deployed(app: str, agent: Agent, store: Store) -> tuple[Agent, str]:
    """The agent under the rule that runs, whatever the file says, and a sentence that tells so. The sentence is empty
    if the rule of the file runs."""
    deployed = catalogue.read(store, app).get(agent.name, UNVERSIONED)
    try:
        under = running(agent, deployed)
    except RestartNeeded as error:
        return agent, f"explained by the rule of the file, which does not run: {error}"
    other = outdated(agent, deployed)
    return under, other and f"explained by version {deployed.number} of the rule, which runs: {other}"


def every(
    app: str, agent: Agent, store: Store, now: float, key: bytes | None = None, place: str | None = None
) -> list[OpenGroup]:
    """The open groups of this key (None: all groups) in this partition (None: in any). `now` is the reader's time in
    seconds since 1970."""
    if agent.scope == "shared":
        shared = shared_groups.shared_groups(store.buffer, app, agent, now, key)
        return [group for group in shared if place in (None, where(group))]
    return open_groups.open_groups(store, app, agent, key, place)


def key_of(text: str) -> bytes:
    """The key that an operator wrote: text, or `base64:...`. Raises ConfigurationError."""
    encoded = text.removeprefix("base64:")
    try:
        return text.encode() if encoded == text else base64.b64decode(encoded, validate=True)
    except ValueError:
        raise ConfigurationError(f"{text} is not base64") from None


def named(
    app: str, agent: Agent, store: Store, now: float, key: str, window: str | None = None, place: str | None = None
) -> list[OpenGroup]:
    """The groups of this key, of one window or of all, in this partition (None: in any). Raises ConfigurationError when
    there is none."""
    matches = every(app, agent, store, now, key_of(key), place)
    if window is not None:
        matches = [match for match in matches if match.window is not None and match.window.start == _begin(window)]
    if not matches:
        raise ConfigurationError(
            f"agent {agent.name} has no open group {key}; `sluicegate groups ls` lists what is open"
        )
    return matches


def _begin(window: str) -> int:
    """The start of a window, in milliseconds since 1970. Raises ConfigurationError."""
    seconds = moment(window)
    if seconds is None:
        raise ConfigurationError(f"--window {window} is not a time; write one such as 2026-01-31T08:05:00Z")
    return round(1000 * seconds)


def only(matches: Sequence[OpenGroup], key: str, place: str | None) -> OpenGroup:
    """The one group among these in this partition (None: in any). Raises ConfigurationError for none and for
    several."""
    within = [match for match in matches if place in (None, where(match))]
    if len(within) == 1:
        return within[0]
    if not within:
        raise ConfigurationError(f"there is no open group {key} in {place}")
    if len({group.partition for group in within}) == 1:
        if overlap(within[0]):
            return within[0]
        starts = ", ".join(str(document(group)["window"]) for group in within)
        raise ConfigurationError(f"{key} is open in the windows {starts}: choose one with --window")
    raise ConfigurationError(f"{key} is open in {', '.join(map(where, within))}: choose one with --partition")


def overlap(group: OpenGroup) -> bool:
    """Whether the group shares records with other windows of its key, so that all of them fire or are dropped
    together."""
    return group.window is not None and bool(group.window.together)


def where(group: OpenGroup) -> str:
    """The partition of the group as TOPIC/NUMBER."""
    return place_of(group.partition)


def document(group: OpenGroup) -> dict[str, object]:
    """The group as JSON, without its values."""
    try:
        content: dict[str, object] = {"key": group.key.decode()}
    except UnicodeDecodeError:
        content = {"key_base64": base64.b64encode(group.key).decode()}
    content |= {"topic": group.partition.topic, "partition": group.partition.number, "owner": group.owner or None}
    content["count"] = group.records
    if group.window is not None:
        content["window"] = rfc3339(group.window.start / 1000)
    return content | {name: getattr(group, name) for name in ("first", "last", "bytes", "age", "fires_in")}


def fire(store: Store, agent: Agent, group: OpenGroup, key: str, person: Person) -> None:
    """Completes the group now. `key` names it in the journal. Raises as open_groups.fire, and ConfigurationError if
    each record has already had its result."""
    _require_no_table(agent)
    window = agent.aggregation.window if agent.aggregation is not None else None
    if window is not None and window.windower.immediate:
        raise ConfigurationError(f"agent {agent.name}: each record of {key} had its result; no other one is due")
    if agent.scope == "shared":
        batch = _sealed(store, agent, group, "groups fire", key, person)
        shared_groups.fire(store.buffer, group.partition.app, agent, batch)
    else:
        open_groups.fire(store, group, person)


def drop(
    store: Store, agent: Agent, group: OpenGroup, key: str, person: Person, outputs: OutputFacts | None = None
) -> None:
    """Deletes the group and its records. `key` names it in the journal. Raises as open_groups.drop."""
    _require_no_table(agent)
    if agent.scope == "shared":
        batch = _sealed(store, agent, group, "groups drop", key, person)
        shared_groups.drop(store.buffer, group.partition.app, agent, batch)
    else:
        open_groups.drop(store, group, agent, person, outputs)


def _sealed(store: Store, agent: Agent, group: OpenGroup, what: str, key: str, person: Person) -> SealedBatch:
    """Seals the group as a batch of the shared buffer. A note in the journal records the operation."""
    app = group.partition.app
    batch = shared_groups.sealed(store.buffer, app, agent, group.key)
    note(store, app, person, what, f"{agent.name} {key}")
    return batch
