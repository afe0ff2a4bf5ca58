"""Stores the schemas of the schema registry that an agent needs in the rows of its partitions.

A worker that starts while the registry is down uses the schemas in the rows.
"""

from msgspec.structs import replace

from sluicegate.schemas import registry
from sluicegate.schemas.codecs import Unavailable
from sluicegate.streams.agent import Agent
from sluicegate.streams.contracts.values import Claim, Source
from sluicegate.streams.errors import SystemNotReady


class RegisteredSchemas:
    """The registered schemas of one agent. `table` is None if the agent uses no registry."""

    def __init__(self, agent: Agent) -> None:
        written = [output.schema for output in agent.outputs if output.schema is not None and output.schema.registry]
        names = {schema.registry for schema in (*written, *([agent.schema] if agent.schema else [])) if schema.registry}
        self.table = registry.table(names.pop()) if names else None
        self._written = [schema for schema in written if schema.subject]

    def begin(self, source: Source | None) -> None:
        """At a claim: load the schemas of its row, and get the ids of all outputs before a record is read. Raises
        SystemNotReady while the registry does not answer."""
        if self.table is None:
            return
        self.table.learn(source.schemas if source is not None else ())
        try:
            for avro in self._written:
                registry.written_id(avro)
        except (Unavailable, registry.SubjectRefused) as error:
            raise SystemNotReady(str(error)) from error

    def noted(self, claim: Claim, source: Source | None) -> Source | None:
        """The source for a commit, with the schemas that the row lacks."""
        before = source if source is not None else claim.source
        if self.table is None or before is None or len(self.table) <= len(before.schemas):
            return source
        return replace(before, schemas=tuple((id, schema, subject) for id, schema, subject in self.table))
