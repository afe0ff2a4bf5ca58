"""What Avro for Java reads of records whose schema lacks fields that the reader's schema has with defaults.

`answers.txt.gz` has its answers, one line for each pair of schemas that a seed makes:

    python -m tests.unit.schemas.avro_java

asks it again and writes them. A Java 17 runtime and Maven are needed for that and for nothing else.
"""

import base64
import gzip
import json
import random
import shutil
import subprocess
from collections.abc import Callable
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import fastavro

from sluicegate.schemas.avro_sizes import size_of
from tests.servers import jars
from tests.servers.program import Unavailable

HERE = Path(__file__).parent
ANSWERS = HERE / "answers.txt.gz"
PAIRS = 10_000
Raw = Callable[[random.Random], Any]


class Pair(NamedTuple):
    """Two schemas, and a datum of the writer's."""

    writer: Any
    reader: Any
    datum: bytes

    def line(self) -> str:
        return f"{json.dumps(self.writer)}\t{json.dumps(self.reader)}\t{base64.b64encode(self.datum).decode()}"


class Answer(NamedTuple):
    """The record as it is read, and the same record written with the reader's schema."""

    value: Any
    written: bytes


def _number(bits: int) -> Raw:
    return lambda chance: chance.choice([0, 1, -1, (1 << bits - 1) - 1, -(1 << bits - 1), chance.getrandbits(bits - 1)])


def _text(chance: random.Random) -> str:
    return "".join(chance.choice('aZ9 "\\\n\u00e9\u20ac\U0001f600') for _ in range(chance.randint(0, 5)))


def _latin(least: int, most: int) -> Raw:
    return lambda chance: "".join(
        chr(chance.choice([0, 10, 34, 65, 127, 128, 233, 255])) for _ in range(chance.randint(least, most))
    )


def _uuid(chance: random.Random) -> str:
    digits = f"{chance.getrandbits(128):032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _within(least: int, most: int) -> Raw:
    return lambda chance: chance.choice([least, most, 0, 1, 1_000, 5, chance.randint(least, most)])


_YEAR_1, _YEAR_9999 = -62_135_596_800, 253_402_300_799  # seconds
LEAVES: list[tuple[Any, Raw]] = [
    ("null", lambda chance: None),
    ("boolean", lambda chance: chance.random() < 0.5),
    ("int", _number(32)),
    ("long", _number(64)),
    ("float", lambda chance: chance.choice([0.0, 1.5, -0.1, 1e30, 16777217.0])),
    ("double", lambda chance: chance.choice([0.0, 2.5, -0.1, 1e300, 5e-324])),
    ("bytes", _latin(0, 4)),
    ("string", _text),
    ({"type": "long", "logicalType": "timestamp-millis"}, _within(_YEAR_1 * 1000, _YEAR_9999 * 1000 + 999)),
    ({"type": "long", "logicalType": "timestamp-micros"}, _within(_YEAR_1 * 10**6, _YEAR_9999 * 10**6 + 999_999)),
    ({"type": "long", "logicalType": "local-timestamp-millis"}, _within(_YEAR_1 * 1000, _YEAR_9999 * 1000 + 999)),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, _within(_YEAR_1 * 10**6, _YEAR_9999 * 10**6 + 999_999)),
    ({"type": "int", "logicalType": "date"}, _within(-719_162, 2_932_896)),
    ({"type": "int", "logicalType": "time-millis"}, _within(0, 86_399_999)),
    ({"type": "long", "logicalType": "time-micros"}, _within(0, 86_399_999_999)),
    ({"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}, _latin(1, 8)),
    ({"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 9}, _latin(1, 8)),
    ({"type": "string", "logicalType": "uuid"}, _uuid),
]
WIDER = {"int": ["long", "double"], "long": ["double"], "float": ["double"], "string": ["bytes"]}


class Maker:
    """Makes types with values. A value is as the schema's JSON has it; `datum` makes what fastavro writes of it."""

    def __init__(self, chance: random.Random) -> None:
        self.chance, self._names = chance, count()

    def kind(self, depth: int) -> Any:
        choice = self.chance.random()
        if depth == 0 or choice < 0.5:
            return self.chance.choice(LEAVES)[0]
        if choice < 0.6:
            return {"type": "enum", "name": self._name(), "symbols": ["A", "B", "C"]}
        if choice < 0.7:
            size = self.chance.randint(1, 3)
            logical = {"logicalType": "decimal", "precision": 2, "scale": 1} if size == 1 else {}
            return {"type": "fixed", "name": self._name(), "size": size, **logical}
        if choice < 0.78:
            return {"type": "array", "items": self._item(depth)}
        if choice < 0.86:
            return {"type": "map", "values": self._item(depth)}
        return self._union(depth) if choice < 0.93 else self.record(depth - 1)

    def _item(self, depth: int) -> Any:
        kind = self.kind(depth - 1)
        return "int" if kind == "null" else kind

    def _union(self, depth: int) -> Any:
        """Of branches whose defaults JSON tells apart, and so does Java: it takes the first number for any number."""
        whole = [kind for kind, _ in LEAVES if _type_of(kind) in ("int", "long")]
        text = [kind for kind, _ in LEAVES if _type_of(kind) in ("string", "bytes")]
        branches = [["null"], ["boolean"], whole, text]
        chosen = [self.chance.choice(kinds) for kinds in self.chance.sample(branches, self.chance.randint(1, 3))]
        if self.chance.random() < 0.4 and depth > 1:
            return (
                [*chosen, self.record(depth - 2)] if self.chance.random() < 0.5 else [self.record(depth - 2), *chosen]
            )
        return chosen

    def _name(self) -> str:
        return f"N{next(self._names)}"

    def record(self, depth: int) -> Any:
        fields = [self.field(f"f{i}", depth) for i in range(self.chance.randint(1, 4))]
        return {"type": "record", "name": self._name(), "fields": fields}

    def field(self, name: str, depth: int) -> Any:
        kind = self.kind(depth)
        return {"name": name, "type": kind, "default": self.value(kind, self._default_branch(kind))}

    def _default_branch(self, kind: Any) -> int:
        """Mostly the first branch of a union. Java takes each record for a branch that fits."""
        records = (
            [isinstance(branch, dict) and branch["type"] == "record" for branch in kind]
            if isinstance(kind, list)
            else [True]
        )
        return 0 if records[0] or self.chance.random() < 0.7 else self.chance.randrange(len(records))

    def value(self, kind: Any, branch: int | None = None) -> Any:
        """`branch`: of a union; None: any."""
        if isinstance(kind, list):
            return self.value(kind[self.chance.randrange(len(kind)) if branch is None else branch], 0)
        for leaf, made in LEAVES:
            if leaf == kind:
                return made(self.chance)
        if kind["type"] == "enum":
            return self.chance.choice(kind["symbols"])
        if kind["type"] == "fixed":
            small = "logicalType" in kind
            return (
                chr(self.chance.choice([0, 9, 99, 157, 255]))
                if small
                else _latin(kind["size"], kind["size"])(self.chance)
            )
        if kind["type"] == "array":
            return [self.value(kind["items"], 0) for _ in range(self.chance.randint(0, 2))]
        if kind["type"] == "map":
            return {"k": self.value(kind["values"], 0)} if self.chance.random() < 0.7 else {}
        wanted = [field for field in kind["fields"] if self.chance.random() < 0.6]
        return {field["name"]: self.value(field["type"], 0) for field in wanted}

    def written(self, kind: Any) -> Any:
        """A type whose data are read as `kind`: it may lack fields, and logical types."""
        if isinstance(kind, list):
            return [self.written(branch) for branch in kind]
        if isinstance(kind, str):
            narrower = [name for name, kinds in WIDER.items() if kind in kinds]
            return self.chance.choice(narrower) if narrower and self.chance.random() < 0.2 else kind
        if kind["type"] in ("array", "map"):
            inner = "items" if kind["type"] == "array" else "values"
            return {**kind, inner: self.written(kind[inner])}
        if kind["type"] == "record":
            return self.writer(kind, 0.5)
        if self.chance.random() < 0.3:
            bare = {key: value for key, value in kind.items() if key not in ("logicalType", "precision", "scale")}
            return bare if len(bare) > 1 else kind["type"]
        return kind

    def writer(self, record: Any, share: float) -> Any:
        fields = [field for field in record["fields"] if self.chance.random() < share]
        made = [{"name": field["name"], "type": self.written(field["type"])} for field in fields]
        self.chance.shuffle(made)
        return {**record, "fields": made}

    def datum(self, written: Any, read: Any) -> Any:
        """A value for fastavro of the writer's type, which the reader's type has, too."""
        if isinstance(written, list):
            at = self.chance.randrange(len(written))
            return _branch(written[at], self.datum(written[at], read[at]))
        kind = _type_of(written)
        if kind == "record":
            types = {field["name"]: field["type"] for field in read["fields"]}
            return {field["name"]: self.datum(field["type"], types[field["name"]]) for field in written["fields"]}
        if kind == "array":
            return [self.datum(written["items"], read["items"]) for _ in range(self.chance.randint(0, 2))]
        if kind == "map":
            return {"m": self.datum(written["values"], read["values"])} if self.chance.random() < 0.7 else {}
        value = self.value(read if kind == _type_of(read) else written)
        return value.encode("latin-1") if kind in ("bytes", "fixed") else value


def _type_of(kind: Any) -> Any:
    return kind["type"] if isinstance(kind, dict) else kind


def _branch(branch: Any, value: Any) -> Any:
    return (branch["name"] if isinstance(branch, dict) and "name" in branch else _type_of(branch), value)


def _plain(schema: Any) -> Any:
    """Without logical types, for which fastavro wants values of Python."""
    if isinstance(schema, list):
        return [_plain(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _plain(value) for key, value in schema.items() if key not in ("logicalType", "default")}


def pair(seed: int) -> Pair:
    """One of three writers' records has no field at all. An array of items without bytes is refused by design."""
    maker = Maker(random.Random(f"avro/{seed}"))
    reader = maker.record(3)
    writer = maker.writer(reader, maker.chance.choice([0.0, 0.4, 0.8]))
    while not _is_accepted(writer) or not _is_accepted(reader):
        reader = maker.record(3)
        writer = maker.writer(reader, 0.8)
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(_plain(writer)), maker.datum(writer, reader))
    return Pair(writer, reader, stream.getvalue())


def _is_accepted(schema: Any) -> bool:
    try:
        size_of(fastavro.parse_schema(schema), {})
    except ValueError:
        return False
    return True


def asked(pairs: list[Pair]) -> list[str]:
    """The answers of Avro for Java, a line for each pair. Raises Unavailable without Java or Maven."""
    java = shutil.which("java")
    if java is None:
        raise Unavailable("Avro for Java needs java on the PATH: install a Java 17 runtime")
    folder = jars.avro()
    command = [java, "-Xmx512m", "-cp", f"{folder}/*", str(HERE / "Resolved.java")]
    text = "".join(pair.line() + "\n" for pair in pairs)
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True, timeout=300)
    return done.stdout.splitlines()


def read(line: str) -> Answer:
    value, written = line.split("\t")
    return Answer(json.loads(value), base64.b64decode(written))


def recorded() -> list[Answer]:
    return [read(line) for line in gzip.decompress(ANSWERS.read_bytes()).decode().splitlines()]
