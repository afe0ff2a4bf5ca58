"""What Karapace does in another way than Confluent's schema registry. The answers are those of Karapace 6.2.0."""

from typing import Any

import pytest
from confluent_kafka.schema_registry import RegisteredSchema, Schema, SchemaReference, SchemaRegistryError

from sluicegate.connectors.registry.client import RegistryClient
from sluicegate.schemas.protobuf_schema import message, names

UNNAMED = (
    "EgRzaG9wIhIKBUZpcnN0EgkKAW4YASABKAUiNAoFT3JkZXISDgoGYW1vdW50GAEgASgBEgoKAmJ5GAIgASgJEg8KBG1vcmUYAyAB"
    "KAmIAQFiBnByb3RvMw=="
)
"""The descriptor of a file, without the name of the file."""
TEXT = """syntax = "proto3";
package shop;

import "money.proto";

message First {
  int32 n = 1;
}
message Order {
  .shop.Money amount = 1;
}
"""


class Karapace:
    """A registry that has the schema without imports as id 1, and the schema with imports as id 2. They are the
    versions 1 and 2 of the subject `orders-value`, which are texts in each format."""

    def get_version(self, subject: str, version: int) -> RegisteredSchema:
        return RegisteredSchema(subject, version, version, None, Schema(TEXT, "PROTOBUF"))

    def get_latest_version(self, subject: str) -> RegisteredSchema:
        return self.get_version(subject, 1)

    def get_schema(self, id: int, fmt: str | None) -> Any:
        if fmt is None:
            return Schema(TEXT, "PROTOBUF", [SchemaReference("money.proto", "money.proto", 1)])
        if id == 2:
            raise SchemaRegistryError(500, -1, "Unknown Schema Registry Error: b'Internal Server Error'")
        return Schema(UNNAMED, "PROTOBUF")


@pytest.mark.parametrize("id", [1, 2], ids=["without imports", "with imports"])
def test_a_message_has_its_name_if_the_answer_has_no_file_name_or_is_a_text_with_imports(id: int) -> None:
    schema = RegistryClient(Karapace(), "r").schema(id, "PROTOBUF")
    assert names(schema) == {(0,): "shop.First", (1,): "shop.Order"}


@pytest.mark.parametrize("version", ["orders-value:1", "orders-value:latest"])
def test_a_version_of_a_subject_is_asked_for_by_its_id_which_has_a_descriptor(version: str) -> None:
    schema = RegistryClient(Karapace(), "r").schema(version, "PROTOBUF")
    fields = message(schema, "shop.Order").fields_by_name
    assert {name: field.has_presence for name, field in fields.items()} == {"amount": False, "by": False, "more": True}


def test_a_version_that_is_a_text_by_its_id_too_is_refused_with_what_to_do() -> None:
    schema = RegistryClient(Karapace(), "r").schema("orders-value:2", "PROTOBUF")
    with pytest.raises(
        ValueError,
        match=r"^is the text of a \.proto file, not a set of file descriptors; make one with protoc --include_imports",
    ):
        message(schema, "shop.Order")
