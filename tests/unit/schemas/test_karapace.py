"""What Karapace does in another way than Confluent's schema registry. The answers are those of Karapace 6.2.0."""

from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryError

from sluicegate.connectors.registry.client import RegistryClient
from sluicegate.schemas.protobuf_schema import names

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
    """A registry that has the schema without imports as id 1, and the schema with imports as id 2."""

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
