"""The identity of an agent's rule: the keys of its document that belong to the rule, and their digest."""

from hashlib import sha256
from typing import NamedTuple

from sluicegate.schemas.json import canonical
from sluicegate.streams.agent import Agent, AgentSettings
from sluicegate.streams.keys import FILE, keys_of
from sluicegate.streams.rules.document import AgentDocument, document

SHOWN = 8  # hex digits of the digest that a result carries
KEYS = (
    "aggregate",
    "correlate",
    "key",
    "emit",
    "format",
    "schema",
    "writer_schema",
    "framing",
    "schema_id",
    "message",
    "validate",
    "let",
    "lookup",
    "to",
    "dedupe",
    *(name for name, entry, *_ in keys_of(AgentSettings) if entry.change != FILE),
)
"""The keys of an agent that form its rule. A change of any other key takes effect at the restart and makes no other
rule."""


class AgentRule(NamedTuple):
    """`digest` is the SHA-256 of the document's canonical JSON, in hex digits. Agents with equal digests have one
    rule."""

    document: AgentDocument
    digest: str

    @property
    def short(self) -> str:
        """The digest as users see it, and as the header of a result carries it."""
        return self.digest[:SHOWN]


def rule_of(agent: Agent) -> AgentRule:
    """The rule of the agent. Raises ExpressionError for an expression that cannot be parsed."""
    keys = document(agent)
    rule = {name: keys[name] for name in KEYS if name in keys}
    rule |= {"envelope": sorted(agent.events)} if agent.events else {}
    rule |= {"changes": sorted(agent.changes)} if agent.changes else {}
    rule |= {"table": True} if agent.over_table else {}
    return AgentRule(rule, sha256(canonical(rule)).hexdigest())
