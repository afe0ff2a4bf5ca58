"""What a format may need to know: plain values, which load no library."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Avro:
    """What `format: avro` needs: the text of the schema; of the one the records were written with, where that is
    another; whether they carry Confluent's frame (a zero byte, four bytes of schema id). `schema_id` is the only one
    that is read, and what is written. With `writers`, a folder, records of any other id are read by the schema in its
    file `<id>.avsc`, from when that file is there."""

    schema: str
    writer_schema: str | None = None
    framing: Literal["none", "confluent"] = "none"
    schema_id: int | None = None
    writers: str | None = None
