"""Options of formats: plain values, which load no library."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class SchemaOptions:
    """The options of a format with a schema, which is Avro unless `kind`, the registry's word for the format, says
    otherwise: the text of the schema; the text of the schema that the records were written with, if it differs; and
    whether records have Confluent's frame (a zero byte and four bytes of schema id). `schema_id` is the id that is
    written, and the only one that is read. With the folder `writers`, the schemas of other ids are in its files, such
    as `<id>.avsc`, as soon as they exist.

    With the name of a `registry`, the registry gives the schemas of other ids, and the id to write: the id of the
    schema under `subject`, where `{record}` stands for the record's full name. `register`: the schema is registered.

    With `pinned`, such as `orders-value:3`, `schema` is empty: it is that version of the subject, asked for when it is
    first needed. With `latest`, a deployment chooses the version: the newest one of that time. Until then `pinned` is
    `orders-value:latest`.

    For Protobuf, `schema` is a set of file descriptors in base64, and `message` the full name of the message, which may
    be left out if the last file of the set has one message. For JSON with a schema, `validate` says that each value
    must be valid for it."""

    schema: str
    writer_schema: str | None = None
    framing: Literal["none", "confluent"] = "none"
    schema_id: int | None = None
    writers: str | None = None
    registry: str = ""
    subject: str = ""
    register: bool = False
    kind: Literal["AVRO", "PROTOBUF", "JSON"] = "AVRO"
    message: str = ""
    validate: bool = False
    pinned: str = ""
    latest: bool = False

    @property
    def refuses(self) -> bool:
        """Whether the options refuse some readable values: invalid ones, or values of other schema ids."""
        return self.validate or (self.schema_id is not None and not self.writers and not self.registry)

    @property
    def subject_read(self) -> str:
        """The subject of `pinned`."""
        return self.pinned.rpartition(":")[0]

    @property
    def is_chosen(self) -> bool:
        """Whether `pinned` names a version by number."""
        return not self.pinned.endswith(":latest")


Avro = SchemaOptions
