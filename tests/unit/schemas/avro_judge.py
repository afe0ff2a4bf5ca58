"""The avro package as the judge of our codec, with what the specification demands and the package leaves out: numbers
of 32 and 64 bits, a boolean of 0 or 1, branches and symbols that are not negative."""

import io
import json
from typing import Any

import avro.errors
import avro.io
import avro.schema


class _Decoder(avro.io.BinaryDecoder):
    def read_long(self) -> int:
        return self._number(64)

    def read_int(self) -> int:
        return self._number(32)

    def read_boolean(self) -> bool:
        byte = self.read(1)
        if byte not in (b"\0", b"\1"):
            raise avro.errors.InvalidAvroBinaryEncoding("boolean")
        return byte == b"\1"

    def index(self, bits: int) -> None:
        """Refuses a negative number that comes next, and does not read it."""
        at = self.reader.tell()
        if self._number(bits) < 0:
            raise avro.errors.InvalidAvroBinaryEncoding("index")
        self.reader.seek(at)

    def _number(self, bits: int) -> int:
        begin = self.reader.tell()
        value = super().read_long()
        longest = -(-bits // 7)
        if self.reader.tell() - begin > longest or not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            raise avro.errors.InvalidAvroBinaryEncoding("number")
        return value


class _Reader(avro.io.DatumReader):
    def read_union(self, writers_schema: Any, readers_schema: Any, decoder: Any) -> Any:
        decoder.index(64)
        return super().read_union(writers_schema, readers_schema, decoder)

    def read_enum(self, writers_schema: Any, readers_schema: Any, decoder: Any) -> Any:
        decoder.index(32)
        return super().read_enum(writers_schema, readers_schema, decoder)


def read(schema: Any, value: bytes) -> Any:
    """The datum that is the whole of `value`. Raises anything for bytes that are none."""
    stream = io.BytesIO(value)
    answer = _Reader(avro.schema.parse(json.dumps(schema))).read(_Decoder(stream))
    if rest := stream.read():
        raise avro.errors.InvalidAvroBinaryEncoding(f"{len(rest)} bytes follow")
    return answer


def written(schema: Any, value: Any) -> bytes:
    stream = io.BytesIO()
    avro.io.DatumWriter(avro.schema.parse(json.dumps(schema))).write(value, avro.io.BinaryEncoder(stream))
    return stream.getvalue()
