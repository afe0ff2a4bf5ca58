"""What Apicurio Registry 3 does in another way than Confluent's schema registry. The registry itself is asked in
tests/integration/test_registry_formats.py."""

from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryError

from sluicegate.connectors.registry import protobuf
from sluicegate.connectors.registry.client import RegistryClient
from sluicegate.schemas.registry import SubjectRefused


@pytest.mark.parametrize(("status", "formats"), [(500, ["serialized", None]), (404, ["serialized"])])
def test_a_descriptor_that_cannot_be_converted_is_asked_for_as_it_is(status: int, formats: list[str | None]) -> None:
    asked: list[str | None] = []

    def ask(form: str | None) -> str:
        asked.append(form)
        if form is not None:
            raise SchemaRegistryError(status, 0, "")
        return "descriptor"

    if status == 500:
        assert protobuf.descriptor(ask) == "descriptor"
    else:
        with pytest.raises(SchemaRegistryError):
            protobuf.descriptor(ask)
    assert asked == formats


class Subject:
    """A subject that has the schema "known", and compares none."""

    def lookup_schema(self, subject: str, schema: Any) -> Any:
        if schema.schema_str != "known":
            raise SchemaRegistryError(404, 40403, "Schema not found")
        return schema

    def test_compatibility(self, subject: str, schema: Any) -> bool:
        raise SchemaRegistryError(422, 42201, "Invalid schema: Syntax violation for Protobuf artifact.")


def test_a_schema_that_the_subject_has_fits_without_a_comparison() -> None:
    client = RegistryClient(Subject(), "r")
    client.fits("orders-value", "known", "AVRO")
    with pytest.raises(SubjectRefused, match="Syntax violation"):
        client.fits("orders-value", "new", "AVRO")
