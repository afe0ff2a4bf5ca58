"""Which registered versions of a subject `check --connect` finds to lack a field that the agent uses."""

import json

import pytest

from sluicegate.schemas import SchemaOptions, registry
from sluicegate.schemas.codecs import Unavailable
from sluicegate.schemas.registry import UnknownId
from sluicegate.streams.agent import Agent, Aggregation, Destination, Reducer
from sluicegate.streams.cli.checking import versions
from sluicegate.streams.cli.opening.registry import refusals
from tests.unit.schemas.protos import encoded


class Subjects:
    """A registry with one subject, `orders-value`."""

    def __init__(self, *schemas: str) -> None:
        self._schemas = schemas

    def versions(self, subject: str) -> list[int]:
        return [*range(1, len(self._schemas) + 1)] if subject == "orders-value" else []

    def schema(self, id: str, kind: str) -> str:
        subject, _, version = id.rpartition(":")
        if int(version) not in self.versions(subject):
            raise UnknownId(id)
        return self._schemas[int(version) - 1]


def proto(fields: str, syntax: str = "proto3") -> str:
    return encoded(f'syntax = "{syntax}"; message R {{ {fields} }}')


def avro(*names: str, **default: str) -> str:
    fields = [{"name": name, "type": "double" if name == "amount" else "string"} for name in names]
    fields += [{"name": name, "type": "string", "default": value} for name, value in default.items()]
    return json.dumps({"type": "record", "name": "R", "fields": fields})


def closed(*names: str) -> str:
    """A JSON Schema of an object that has these properties and no others."""
    return json.dumps({"properties": {name: {} for name in names}, "additionalProperties": False})


def reader(kind: str, read: int, where: str | None = None) -> Agent:
    options = SchemaOptions(
        "", None, "confluent", registry="r", pinned=f"orders-value:{read}" if read else "", kind=kind
    )
    rule = Aggregation("by", count=2, compute=(Reducer("total", "sum", "amount"),))
    name = {"PROTOBUF": "protobuf", "AVRO": "avro", "JSON": "json-schema"}[kind]
    return Agent("sums", ("orders",), rule, Destination("out"), "dead", format=name, schema=options, where=where)


def lacking(kind: str, *schemas: str, read: int, where: str | None = None) -> list[str]:
    outcome = versions.findings([reader(kind, read, where)], Subjects(*schemas))
    return [item.text for item in outcome if not item.ok]


@pytest.mark.parametrize("added", ["string by = 2;", "optional string by = 2;", "repeated string by = 2;"])
def test_a_protobuf_version_without_a_newer_field_is_no_problem(added: str) -> None:
    assert lacking("PROTOBUF", proto("double amount = 1;"), proto(f"double amount = 1; {added}"), read=2) == []


def test_a_protobuf_field_that_had_another_name_is_read_by_its_number() -> None:
    assert lacking("PROTOBUF", proto("double sum = 1;"), proto("double amount = 1; string by = 2;"), read=2) == []


def test_a_protobuf_version_without_a_required_field_is_a_problem() -> None:
    newer = "required double amount = 1; required string by = 2;"
    versions = (proto("required double amount = 1;", "proto2"), proto(newer, "proto2"))
    assert lacking("PROTOBUF", *versions, read=2) == ["subject orders-value version 1 lacks by, which agent sums uses"]


def test_a_field_that_the_protobuf_schema_itself_lacks_is_a_problem() -> None:
    versions = (proto("double amount = 1;"), proto("double amount = 1; string by = 2;"))
    assert "subject orders-value version 1 lacks by, which agent sums uses" in lacking("PROTOBUF", *versions, read=1)


def test_an_avro_version_needs_the_field_unless_the_schema_that_is_read_with_has_a_default() -> None:
    older = avro("amount")
    assert lacking("AVRO", older, avro("amount", "by"), read=2) == [
        "subject orders-value version 1 lacks by, which agent sums uses"
    ]
    assert lacking("AVRO", older, avro("amount", by=""), read=2) == []


def test_a_json_schema_without_other_properties_lacks_those_that_it_does_not_name() -> None:
    assert lacking("JSON", closed("amount"), closed("amount", "by"), '{"properties": {}}', "true", read=0) == [
        "subject orders-value version 1 lacks by, which agent sums uses"
    ]


TYPED = [("AVRO", avro("amount", "by")), ("PROTOBUF", proto("double amount = 1; string by = 2;"))]


@pytest.mark.parametrize(("kind", "schema"), TYPED)
def test_check_and_start_refuse_an_expression_that_the_pinned_schema_types_differently(
    kind: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = registry.SchemaTable()
    table.ask = Subjects(schema)
    monkeypatch.setattr(registry, "table", lambda name: table)
    [problem] = lacking(kind, schema, read=1, where="by > 3")
    assert problem.startswith("agents.sums.where: ")
    [refused] = refusals([reader(kind, 1, "by > 3")])
    assert refused.startswith(f"{problem}; ")
    assert (lacking(kind, schema, read=1, where="amount > 3"), [*refusals([reader(kind, 1, "amount > 3")])]) == ([], [])


@pytest.mark.parametrize(("kind", "schema"), TYPED)
def test_a_start_is_not_refused_while_the_registry_is_away(
    kind: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Away(Subjects):
        def schema(self, id: str, kind: str) -> str:
            raise Unavailable("away")

    table = registry.SchemaTable()
    table.ask = Away(schema)
    monkeypatch.setattr(registry, "table", lambda name: table)
    assert [*refusals([reader(kind, 1, "by > 3")])] == []


UNUSABLE = [
    ("AVRO", "no schema", "is not an Avro schema"),
    ("PROTOBUF", "message R { Other by = 2; }", "is the text of a"),
]


@pytest.mark.parametrize(("kind", "schema", "reason"), UNUSABLE)
def test_check_and_start_refuse_a_pinned_schema_with_which_no_record_can_be_read(
    kind: str, schema: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = registry.SchemaTable()
    table.ask = Subjects(schema)
    monkeypatch.setattr(registry, "table", lambda name: table)
    [refused] = refusals([reader(kind, 1)])
    assert refused.startswith(f"agent sums: the schema orders-value:1 of the registry {reason}")
    assert lacking(kind, schema, read=1) == [refused.partition("; ")[0]]
