"""The catalogue: all versions of the rules of an app, as one entry of a partition that no agent can have.

The name `~` is not a name of an agent, so every store keeps the entry as it keeps the changelogs. A deployment is one
claim and one commit: a compare-and-set for all its agents. The highest version in the store runs, whatever a file says.
"""

from collections.abc import Callable, Mapping
from typing import Any

import lz4.frame
import msgspec

from sluicegate.streams import failpoints
from sluicegate.streams.aggregation.durable.entry import body_of, framed
from sluicegate.streams.contracts.single_entry import EntryStore, claim_entry, read_entry, write_entry
from sluicegate.streams.contracts.stores import Reader
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.errors import ChangelogIncomplete
from sluicegate.streams.rules import stored
from sluicegate.streams.rules.versions import Deployed, RuleVersion

RULES = b"\x05"
"""The first byte of the content of the catalogue's entry."""
FORMAT = 1

Catalogue = Mapping[str, Deployed]
"""The versions of each agent's rule, by agent name."""


class _Document(msgspec.Struct):
    format: int
    agents: dict[str, tuple[RuleVersion, ...]]


class _Known(msgspec.Struct):
    """The document before its agents are decoded."""

    format: int
    agents: dict[str, list[dict[str, Any]]]


def place(app: str) -> Partition:
    return Partition(app, "~", "rules", 0)


def read(store: Reader, app: str) -> Catalogue:
    """Raises PersistenceError, and ChangelogIncomplete for an entry that another program wrote or that is damaged."""
    entry = read_entry(store, place(app))
    return {} if entry is None else _unpacked(entry)


def deploy(
    store: EntryStore, app: str, token: str, who: str, change: Callable[[Catalogue, float], Catalogue]
) -> Catalogue:
    """Write the result of `change(catalogue, store time)`, if it differs. Raises the errors of `change`, Fenced if
    another deployment came in between (nothing was changed), and PersistenceError if it is unknown whether it was
    written."""
    claim, entry = claim_entry(store, place(app), token, who, "another deployment claimed the catalogue of rules")
    before = {} if entry is None else _unpacked(entry)
    after = change(before, claim.store_time)
    if after != before:
        write_entry(store, claim, _packed(after))
        failpoints.hit("rules-written")
    return after


def _packed(catalogue: Catalogue) -> bytes:
    document = msgspec.to_builtins(_Document(FORMAT, {name: deployed.versions for name, deployed in catalogue.items()}))
    return framed(RULES + bytes(lz4.frame.compress(msgspec.json.encode(_with_agents(document, stored.stored)))))


def _with_agents(document: dict[str, Any], named: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """The document with renamed fields in each agent."""
    for version in [version for versions in document["agents"].values() for version in versions]:
        version["agent"] = (agent := version.get("agent")) and named(agent)
    return document


def _unpacked(blob: bytes) -> Catalogue:
    try:
        known = msgspec.json.decode(lz4.frame.decompress(body_of(blob, RULES)), type=_Known)
        document = msgspec.convert(_with_agents(msgspec.to_builtins(known), stored.read), _Document)
        if document.format != FORMAT:
            raise ValueError(f"format {document.format}, this program knows {FORMAT}")
    except (msgspec.MsgspecError, RuntimeError, ValueError, MemoryError) as error:
        raise ChangelogIncomplete(f"the catalogue of rules cannot be read: {error}") from error
    return {name: Deployed(versions) for name, versions in document.agents.items()}
