"""The expressions of an agent, parsed and compiled once, and evaluated for each record.

A clause is one expression of the file, named by its place in the agent: `where`, `let.total`.
"""

import ast
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from sluicegate.schemas import Codec
from sluicegate.schemas.codecs import as_json
from sluicegate.schemas.json import (
    DEEPEST,
    Field,
    FieldKind,
    bounded,
    decode_any,
    deep,
    document,
    encode,
    walk,
    wanted,
    well_formed,
)
from sluicegate.streams.agent import Agent, Let, Until
from sluicegate.streams.aggregation.compiled.compiler import MadeFunction, function, stage
from sluicegate.streams.contracts.record import Record, headers
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.expressions.exact import Evaluate, ReaderOf, exact
from sluicegate.streams.expressions.faults import EvaluationError, ExpressionError
from sluicegate.streams.expressions.parse import parse
from sluicegate.streams.expressions.scope import NamePath, paths, roots
from sluicegate.streams.expressions.templates import expression, statements
from sluicegate.streams.expressions.times import EPOCH, duration_text, time_text
from sluicegate.streams.expressions.tree import Node
from sluicegate.streams.expressions.typed import OUTSIDE, NotTyped, TypedCode, unproven
from sluicegate.streams.expressions.types import INTEGER, TEXT, TIME, ValueType, map_of, nullable, record_of
from sluicegate.streams.expressions.values import StepBudget

MESSAGE = "message"
GROUP = "group"
NO_GROUP: Mapping[str, Any] = MappingProxyType({})
PARTS = ("value", "key", "headers", "timestamp", "topic", "partition", "offset")
"""The fields of `message` in expressions."""


class ClauseFailed(EvaluationError):
    """An expression has no value for a record. The text names fields and types, never a value."""

    def __init__(self, clause: str, problem: str) -> None:
        super().__init__(problem)
        self.clause = clause


class Clause(NamedTuple):
    """`name` is its place in the agent, such as `let.total`."""

    name: str
    node: Node


class Seen(msgspec.Struct, gc=False):
    """A record as an expression sees it, for clauses that use more than its fields. `memo` caches its computed fields.
    `group` has the values of its group."""

    read: Any
    record: Record
    memo: dict[str, Any]
    group: Mapping[str, Any] = NO_GROUP


def message_type(value: ValueType) -> ValueType:
    """The type of `message` for a record whose value has this type."""
    return record_of(
        {
            "value": value,
            "key": nullable(TEXT),
            "headers": map_of(nullable(TEXT)),
            "timestamp": TIME,
            "topic": TEXT,
            "partition": INTEGER,
            "offset": INTEGER,
        }
    )


def clause(name: str, text: str) -> Clause:
    """Parse the expression. Raises ConfigurationError."""
    try:
        return Clause(name, parse(text))
    except ExpressionError as error:
        raise ConfigurationError(f"{name}: column {error.column}: {error.problem}") from error


def answering(clause: Clause, reader: ReaderOf) -> Evaluate:
    """Compile the clause to a function. Its error names the clause. The function is not thread-safe. Raises
    ConfigurationError."""
    try:
        evaluate = exact(clause.node, reader)
    except ExpressionError as error:
        raise ConfigurationError(f"{clause.name}: column {error.column}: {error.problem}") from error

    def answer(seen: Any) -> Any:
        try:
            return evaluate(seen)
        except ClauseFailed:
            raise
        except EvaluationError as error:
            raise ClauseFailed(clause.name, str(error)) from error

    return answer


def answered(name: str, answer: object) -> bool:
    """The value of a condition. Raises ClauseFailed for a value that is neither true nor false."""
    if answer is True or answer is False:
        return bool(answer)
    raise ClauseFailed(name, "the expression gives neither true nor false")


def computed(lets: Sequence[Let], names: Iterable[str]) -> dict[str, Clause]:
    """Return the named computed fields and the computed fields that they depend on, in the order of the file. Raises
    ConfigurationError."""
    clauses = {let.name: clause(f"let.{let.name}", let.expression) for let in lets}
    wanted = set(names)
    for name in reversed(clauses):
        if name in wanted:
            wanted |= roots(clauses[name].node)
    return {name: let for name, let in clauses.items() if name in wanted}


class Fields:
    """Reads the fields of a record that the clauses of an agent name. Only these are decoded. `lets` are the computed
    fields that the clauses may name.

    `plain`: the clauses name only fields, so `read` returns the decoded object without a wrapper. `decodes`: values are
    decoded. With `opaque`, values are decoded only if a clause names a part of the value.
    """

    __slots__ = ("_blank", "_decode", "_getters", "_lets", "_message", "_paths", "_valid", "decodes", "plain")

    def __init__(self, clauses: Collection[Clause], lets: Sequence[Let], codec: Codec, *, opaque: bool = False) -> None:
        """Raises ConfigurationError if a clause names a field and the format has no fields."""
        used = computed(lets, {name for clause in clauses for name in roots(clause.node)})
        asked = {path for clause in (*clauses, *used.values()) for path in paths(clause.node) if path[0] not in used}
        self._paths = [path for path in asked if path[0] not in (MESSAGE, GROUP)]
        self.plain = not used and len(self._paths) == len(asked)
        fields = sorted({path[0] for path in self._paths})
        if fields and not codec.fields:
            raise ConfigurationError(
                f"format {codec.name} has no fields: {fields[0]} cannot be read; ask for message.key, message.headers, "
                "message.timestamp or message.topic"
            )
        want = wanted([Field(name, "any", False) for name in fields])
        self._getters = dict(zip(fields, want.getters, strict=True))
        self._blank = want.record_type()
        self._decode, self._valid = _decoders(codec, want.decode if fields else None, fields)
        parts = {part for path in asked if path[0] == MESSAGE for part in path[1:2] or PARTS}
        self._message = _message(parts, codec)
        self.decodes = not opaque or bool(fields) or "value" in parts
        self._lets: dict[str, Callable[[Any], Any]] = {}
        for name, let in used.items():
            self._lets[name] = self.function(let)

    def value(self, record: Record) -> bytes:
        """The value to pass to `read`. It is empty for a tombstone if values are not decoded."""
        value = record.value()
        return b"" if value is None and not self.decodes else value  # type: ignore[return-value]  # `read` refuses None

    def read(self, record: Record, value: bytes) -> Any:
        """Decode the record for the clauses. A value that is not an object has no fields. Raises the errors of
        decoders."""
        if not self.decodes:
            return Seen(self._blank, record, {})
        try:
            message = self._decode(value)
        except msgspec.ValidationError:
            self._valid(value)
            message = self._blank
        if value.count(b"[") + value.count(b"{") > DEEPEST:
            self._bound(message)
        return message if self.plain else Seen(message, record, {})

    def in_group(self, record: Record, value: bytes, group: Mapping[str, Any]) -> Any:
        """As `read`, with the values of the record's group. The value was already validated."""
        if not self._paths:
            return Seen(None, record, {}, group)
        message = self.read(record, value)
        return message if self.plain else replace(message, group=group)

    def _bound(self, field: Any) -> None:
        for name, *inside in self._paths:
            value = self._getters[name](field)
            if deep(walk(value, ".".join(inside)) if inside else value):
                raise msgspec.DecodeError(f"is nested deeper than {DEEPEST} levels")

    def function(self, clause: Clause) -> Callable[[Any], Any]:
        """Compile the clause to a function of the object that `read` returns. The function raises ClauseFailed."""
        return answering(clause, self._reader)

    def _reader(self, name: str) -> Callable[[Any], Any]:
        if name == MESSAGE:
            return lambda seen: self._message(seen.record)
        if name == GROUP:
            return lambda seen: seen.group
        if name in self._lets:
            return _remembered(name, self._lets[name])
        get = self._getters[name]
        return get if self.plain else lambda seen: get(seen.read)


class Where:
    """Decides which records an agent takes. `takes` decides one record and defines the meaning. `answers` is a compiled
    loop, if the condition can be typed: it gets the records, their largest size, and the function that decides the
    records that it cannot."""

    __slots__ = ("_answer", "_fields", "answers", "value")

    def __init__(self, text: str, lets: Sequence[Let], codec: Codec, *, opaque: bool = False) -> None:
        """`opaque` as in Fields. Raises ConfigurationError."""
        where = clause("where", text)
        self._fields = Fields([where], lets, codec, opaque=opaque)
        self._answer, self.value = self._fields.function(where), self._fields.value
        self.answers = _loop_of(where, lets, codec)

    def takes(self, record: Record, value: bytes) -> bool:
        """Whether the agent takes the record. Raises ClauseFailed, and the errors of decoders."""
        return answered("where", self._answer(self._fields.read(record, value)))


def typed_code(lets: Sequence[Let], known: Mapping[NamePath, ast.expr] = MappingProxyType({})) -> TypedCode:
    """The code generator for clauses over these computed fields. `known` is the code for parts of `group`.
    The parts of `message` are read when they are used."""
    trees = {name: let.node for name, let in computed(lets, [let.name for let in lets]).items()}
    message: dict[NamePath, ast.expr] = {(MESSAGE, part): expression(text) for part, text in _MESSAGE.items()}
    lets_by_name = {name.removeprefix("let."): node for name, node in trees.items()}
    return TypedCode(lets_by_name, (MESSAGE, GROUP), {**message, **known}, (GROUP,))


def names_key(agent: Agent) -> bool:
    """Whether `where` or a computed field of the agent names `message.key`."""
    clauses = [*computed(agent.let, [let.name for let in agent.let]).values()]
    clauses += [clause("where", agent.where)] if agent.where else []
    return any(MESSAGE_KEY in paths(clause.node) for clause in clauses)


# not `value`: the exact form decodes it before it evaluates the expression, so a broken one is always refused
_MESSAGE = {
    "key": "text_of(record.key())",
    "headers": "headers_of(record)",
    "timestamp": "moment_of(record)",
    "topic": "record.topic()",
    "partition": "record.partition()",
    "offset": "record.offset()",
}


MESSAGE_KEY = (MESSAGE, "key")
KEY_TEXT = f"key.decode() if key is not None and len(key) <= {OUTSIDE} and key.isascii() else text_of(key)"
"""`message.key` of a loop that has the key of the record in `key`. The call of `text_of` costs as much as the rest."""


def _short_text(value: bytes | None) -> str | None:
    if value is not None and len(value) > OUTSIDE:
        unproven()
    try:  # as `_text`, without its call
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _short_headers(record: Record) -> dict[str, str]:
    made = _headers(record)
    if sum(map(len, made.values())) > OUTSIDE:
        unproven()
    return made


def names_of(code: TypedCode, codec: Codec) -> dict[str, Any]:
    """The free names of the code, and `decode`: the decoder of the record that it reads."""
    message = {"text_of": _short_text, "headers_of": _short_headers, "moment_of": _moment}
    scalars = code.scalars()
    kinds: dict[str, FieldKind] = {name: "scalar" if name in scalars else "any" for name in code.fields}
    want = wanted([Field(name, code.decoded.get(name, kinds[name]), name in code.decoded) for name in code.fields])
    decode, _ = _decoders(codec, want.decode, [*code.fields])
    return {**code.constants(), **message, "decode": (bounded(decode) if code.whole else decode)}


_ANSWERS = """
answers = []
add = answers.append
for record in records:
    try:
        value = record.value()
        if len(value) > largest or len(value) > most:
            unproven()
        read = decode(value)
        WHERE
        answer = CONDITION
    except Exception:
        answer = exactly(record)
    add(answer)
return answers
"""


def _loop_of(where: Clause, lets: Sequence[Let], codec: Codec) -> MadeFunction | None:
    code = typed_code(lets)
    try:
        condition = code.condition(where.node)
    except NotTyped:
        return None
    if not code.fields or not codec.fields:
        return None
    body = statements(_ANSWERS, WHERE=[stage("where"), *code.checks()], CONDITION=condition)
    names = {**names_of(code, codec), "most": code.largest()}
    return function("where", ("records", "largest", "exactly"), body, names)


class Lets:
    """Adds to a record's value the computed fields that the key and the reducers of the agent use."""

    __slots__ = ("_fields", "_text", "_values")

    def __init__(self, lets: Sequence[Let], names: Collection[str], codec: Codec, fields: Iterable[str]) -> None:
        """`names` are the computed fields to add. `fields` are the other fields that the rule reads. Raises
        ConfigurationError."""
        chosen = [let for name, let in computed(lets, names).items() if name in names]
        self._fields = Fields(chosen, lets, codec)
        self._values = [(let.name.partition(".")[2], self._fields.function(let)) for let in chosen]
        self._text = _as_text(codec, fields)

    def added(self, record: Record, value: bytes) -> bytes:
        """The record's value as JSON with its computed fields. A computed field that is null counts as missing. A value
        that is not an object is returned unchanged. Raises ClauseFailed, and the errors of decoders."""
        seen = self._fields.read(record, value)
        return extended(self._text(value), computed_fields("let", self._values, seen))


def extended(text: bytes, fields: dict[str, Any]) -> bytes:
    """Append fields to a JSON object. They replace fields of the same name, because the last one counts."""
    inside = text.rstrip().removesuffix(b"}")
    if len(inside) == len(text.rstrip()):
        return text
    return inside + (b"" if inside.strip() == b"{" else b",") + encode(fields)[1:]


def needed(agent: Agent) -> set[str]:
    """The computed fields of an agent that its key, reducers, `until` and `dedupe` name."""
    rule, dedupe = agent.aggregation, agent.dedupe
    names = [agent.key, *([dedupe.name] if dedupe is not None and dedupe.by == "field" else [])]
    if rule is not None:
        names += [rule.key, *(reducer.field for reducer in rule.compute)]
        names += [rule.until.field] if isinstance(rule.until, Until) else []
    return {path.partition(".")[0] for path in names if path} & {definition.name for definition in agent.let}


def computed_fields(clause: str, answers: Iterable[tuple[str, Evaluate | None]], seen: Any) -> dict[str, Any]:
    """Evaluate the expressions for the fields of one document. Raises ClauseFailed, also if the values together are
    longer than one evaluation may make: the document is then refused before it is encoded."""
    budget, fields = StepBudget(), {}
    for name, answer in answers:
        if answer is None:
            continue
        value = answer(seen)
        try:
            budget.keep(value)
        except EvaluationError as error:
            raise ClauseFailed(f"{clause}.{name}", str(error)) from error
        fields[name] = as_field(value)
    return fields


def as_field(value: Any) -> Any:
    """A computed value as a field of JSON: times and durations are text."""
    match value:
        case datetime():
            return time_text(value)
        case timedelta():
            return duration_text(value)
        case Mapping():
            return {name: as_field(member) for name, member in value.items()}
        case list() | tuple():
            return [as_field(element) for element in value]
        case _:
            return value


def _moment(record: Record) -> datetime | None:
    kind, milliseconds = record.timestamp()
    try:
        return EPOCH + timedelta(milliseconds=milliseconds) if kind else None
    except OverflowError:
        return None


def _remembered(name: str, compute: Callable[[Any], Any]) -> Callable[[Seen], Any]:
    """A function that computes the field once for each record, when it is first used."""

    def get(seen: Seen) -> Any:
        if name not in seen.memo:
            seen.memo[name] = compute(seen)
        return seen.memo[name]

    return get


def _decoders(
    codec: Codec, decode: Callable[[bytes], Any] | None, fields: list[str]
) -> tuple[Callable[[bytes], Any], Callable[[bytes], Any]]:
    """Two functions: one decodes the fields, the other raises if the value is not valid in this format."""
    if codec.name == "json":
        return decode or well_formed, decode_any
    if decode is None:
        return codec.decode, codec.decode
    text, read = as_json(codec, fields), decode
    return lambda value: read(text(value)), codec.decode


def _as_text(codec: Codec, fields: Iterable[str]) -> Callable[[bytes], bytes]:
    if codec.name == "json":
        return lambda value: value
    return as_json(codec, {*fields}) if codec.fields else lambda value: b"{}"


def _message(parts: set[str], codec: Codec) -> Callable[[Record], Mapping[str, Any]]:
    """A function that makes `message` for a record. It has only the parts that an expression names, and no part that
    the record lacks."""
    whole = _whole(codec)
    makers: dict[str, Callable[[Record], Any]] = {
        "value": lambda record: whole(record.value() or b""),
        "key": lambda record: _text(record.key()),
        "headers": _headers,
        "timestamp": _moment,
        "topic": lambda record: record.topic(),
        "partition": lambda record: record.partition(),
        "offset": lambda record: record.offset(),
    }
    chosen = [(part, makers[part]) for part in PARTS if part in parts]
    return lambda record: {part: value for part, make in chosen if (value := make(record)) is not None}


def _whole(codec: Codec) -> Callable[[bytes], Any]:
    """A function that decodes the whole value as JSON would hold it. A raw value gives None."""
    if not codec.fields:
        return lambda value: None
    if codec.name == "json":
        return document
    text = as_json(codec)
    return lambda value: document(text(value))


def _headers(record: Record) -> dict[str, str]:
    """The headers with text values. Of several headers with one name the last one counts, as in Kafka's own clients."""
    return {name: text for name, value in headers(record) if (text := _text(value)) is not None}


def _text(value: bytes | None) -> str | None:
    """Decode UTF-8 text. None for a missing value, and for bytes that are not UTF-8."""
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None
