"""The keys for reading records: the topics, the format and its schema, the fields."""

from typing import Annotated, Any

from pydantic import Field

from sluicegate.streams.config.sections.declared import DeclaredFields
from sluicegate.streams.config.sections.entries import FilePart
from sluicegate.streams.config.sections.fields import Expression, Format, SchemaId, Text, unless_unknown
from sluicegate.streams.config.sections.models_topics import Framing
from sluicegate.streams.config.sections.registry import RegisterField


class ReadModel(FilePart, frozen=True):
    """The keys that an agent and a leg of a correlation have in common."""

    from_: Any = Field(alias="from")
    format: Format = Field(
        default="json",
        description="The format of the records. `module:name` is a codec of your own.",
        examples=["avro"],
    )
    schema_: Text | None = Field(
        default=None,
        alias="schema",
        description="The schema that records are read with: a file, or `SUBJECT:VERSION` of the schema registry.",
        examples=["order.avsc"],
    )
    writer_schema: Text | None = Field(
        default=None,
        description="The file of the schema that records were written with, if it is another one.",
        examples=["order-1.avsc"],
    )
    writer_schemas: Text | None = Field(
        default=None,
        description=(
            "A folder. A record with another schema id than `schema_id` is read with the schema in the file of its id."
        ),
        examples=["schemas"],
    )
    framing: Framing | None = Field(
        default=None, description="`confluent`: a schema id stands before each record.", examples=["confluent"]
    )
    schema_id: SchemaId | None = Field(
        default=None,
        description=(
            "The schema id of the records, with `framing: confluent`. Records with any other id become dead letters."
        ),
        examples=[7],
    )
    message: Text | None = Field(
        default=None, description="The message of a Protobuf schema that records hold.", examples=["shop.Order"]
    )
    validate_: RegisterField | None = Field(
        default=None,
        alias="validate",
        description="Whether each value is checked against its JSON Schema.",
        examples=[True],
    )
    fields: DeclaredFields | None = Field(
        default=None,
        description="The fields of the records and their types, which `check` compares expressions with.",
        examples=[{"amount": "number", "tier": "text or null"}],
    )
    let: Annotated[dict[str, Expression], unless_unknown(dict)] | None = Field(
        default=None, description="Computed fields by name, each an expression.", examples=[{"total": "amount * qty"}]
    )
