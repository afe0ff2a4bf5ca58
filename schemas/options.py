"""Options of formats: plain values, which load no library."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Avro:
    """The options of `format: avro`: the text of the schema; the text of the schema that the records were written with,
    if it differs; and whether records have Confluent's frame (a zero byte and four bytes of schema id). `schema_id` is
    the id that is written, and the only one that is read. With the folder `writers`, records with another id are read
    with the schema in its file `<id>.avsc`, as soon as that file exists.

    With the name of a `registry`, it is asked for the schemas of other ids, and for the id to write: that of the schema
    under `subject`, where `{record}` stands for the record's full name. `register`: the schema is registered."""

    schema: str
    writer_schema: str | None = None
    framing: Literal["none", "confluent"] = "none"
    schema_id: int | None = None
    writers: str | None = None
    registry: str = ""
    subject: str = ""
    register: bool = False
