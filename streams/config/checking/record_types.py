"""The types of an agent's records that are known before any record is read. Their sources are the agent's Avro or
Protobuf schema, the type of its handler's `value`, and the values in the file's tests."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from msgspec import inspect

from sluicegate.streams.agent import Agent, Aggregation, Lookup, Reducer
from sluicegate.streams.aggregation.events import EARLY, EMPTY, MERGED, REASONS, WINDOW
from sluicegate.streams.aggregation.results import FIXED
from sluicegate.streams.config.formats.protobuf_types import message_fields
from sluicegate.streams.config.sections.models_groups import Aggregate, ReducerModel
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.expressions.avro import noted, of_avro
from sluicegate.streams.expressions.types import (
    BOOLEAN,
    DOUBLE,
    INTEGER,
    LIST,
    NULL,
    NUMBER,
    TEXT,
    UNKNOWN,
    ValueType,
    common,
    list_of,
    map_of,
    nullable,
    open_record_of,
    present,
    record_of,
)
from sluicegate.streams.reducers import REDUCERS

RecordFields = Mapping[str, ValueType]


class RecordType(NamedTuple):
    """The fields of a record. `source` names the definition of all fields, such as `invoice.avsc`. None: there may be
    other fields."""

    fields: RecordFields
    source: str | None = None


NOTHING = RecordType({})


def record_type(agent: Agent, schema_file: str | None) -> RecordType:
    """The type from the agent's schema or its handler. `schema_file` is the name of the schema in messages. For an
    event it is the type of the data."""
    known = _data_type(agent, schema_file)
    if agent.keeps_rows and known.source is not None:
        row = known.fields.get("after")
        return RecordType(row.fields, known.source) if row is not None and row.fields else NOTHING
    return RecordType({"data": record_of(known.fields)}) if agent.events and known.source is not None else known


def _data_type(agent: Agent, schema_file: str | None) -> RecordType:
    options = agent.schema
    if options is not None and options.schema and agent.format == "avro":
        return _of_schema(options.schema, schema_file or options.pinned)
    if options is not None and options.schema and agent.format == "protobuf":
        fields = message_fields(options.schema, options.message)
        return RecordType(fields, schema_file or options.pinned or "the schema") if fields else NOTHING
    return _of_handler(agent) if agent.format == "json" else NOTHING


def result_type(
    rule: Aggregation | Aggregate,
    compute: Mapping[str, Reducer | ReducerModel],
    fields: RecordFields = NOTHING.fields,
    emits: bool = False,
) -> dict[str, ValueType]:
    """The fields of a result that is computed from records with these fields. `emits`: there are early results."""
    types = {name: noted("a time") if name.endswith("_at") else TEXT for name in FIXED}
    reasons = (*REASONS, *((WINDOW,) if rule.window is not None else ()), *((EARLY, MERGED, EMPTY) if emits else ()))
    types |= {"count": INTEGER, "key_base64": nullable(TEXT), "reason": replace(TEXT, symbols=reasons)}
    types |= {"revision": INTEGER, "final": BOOLEAN} if emits else {}
    if rule.window is not None:
        times = dict.fromkeys(("start", "end"), noted("a time"))
        types[WINDOW] = record_of({**times, "closed_by": nullable(TEXT), "revision": INTEGER})
    for name, reducer in compute.items():
        its = field_type(fields, reducer.field)
        types[name] = (
            nullable(_of_reducer(reducer.kind, its)) if rule.on_missing == "ignore" else _of_reducer(reducer.kind, its)
        )
    return types


def row_types(lookups: Iterable[Lookup]) -> dict[str, ValueType]:
    """The types of the looked-up rows, by name. A missing row is null, unless its record becomes a dead letter."""
    rows = {lookup: record_of(dict.fromkeys(lookup.fields, UNKNOWN)) for lookup in lookups}
    return {lookup.name: nullable(row) if lookup.missing == "null" else row for lookup, row in rows.items()}


def group_type(
    rule: Aggregation | Aggregate, compute: Mapping[str, Reducer | ReducerModel], fields: RecordFields = NOTHING.fields
) -> ValueType:
    """The type of `group` in an `until` expression. The expression is false while a value does not exist, so no field
    is null."""
    result = result_type(rule, compute, fields)
    return record_of({"count": INTEGER, **{name: present(result[name]) for name in compute}})


def _of_reducer(kind: str, field: ValueType) -> ValueType:
    """The type of a reducer's result for a field of this type. A sum of doubles may be an integer in JSON."""
    match REDUCERS[kind].result:
        case "integer":
            return INTEGER
        case "double":
            return DOUBLE
        case "number":
            return INTEGER if field.kind == "integer" else NUMBER
        case "list":
            return list_of(field)
        case "ranking":
            return list_of(record_of({"value": TEXT, "count": INTEGER, "error": INTEGER}))
        case "counts":
            return map_of(INTEGER)
        case "field":
            return field
    return UNKNOWN


def field_type(fields: RecordFields, path: str | None) -> ValueType:
    """The type of the existing field at `a.b`."""
    type_ = record_of(fields) if path else UNKNOWN
    for name in path.split(".") if path else ():
        type_ = (type_.fields or {}).get(name, type_.items)
    return present(type_)


# -- Avro --------------------------------------------------------------------------------------------------------------


def _of_schema(text: str, file: str | None) -> RecordType:
    from sluicegate.schemas.avro import parsed
    from sluicegate.schemas.avro_sizes import size_of

    schema: Any = parsed(text)
    named: dict[str, Any] = {}
    size_of(schema, named)
    type_ = of_avro(schema, named)
    return RecordType(type_.fields, file or f"the schema {schema['name']}") if type_.fields is not None else NOTHING


# -- the type of a handler's `value` -----------------------------------------------------------------------------------


def _of_handler(agent: Agent) -> RecordType:
    """The type of `value` of a handler that gets each record. A handler of groups gets results."""
    from sluicegate.streams.handlers.functions import functions

    if agent.handler is None or agent.aggregation is not None:
        return NOTHING
    try:
        kind = functions(agent.handler.functions, "message", agent.handler.session).value_type
        type_ = _of_type(inspect.type_info(kind), ())
    except (ConfigurationError, TypeError):
        return NOTHING
    closed = type_.of is None
    return RecordType(type_.fields, kind.__name__ if closed else None) if type_.fields is not None else NOTHING


_OF_PYTHON: dict[type[inspect.Type], ValueType] = {
    inspect.NoneType: NULL,
    inspect.BoolType: BOOLEAN,
    inspect.IntType: INTEGER,
    inspect.FloatType: NUMBER,  # JSON may write 3.0 as 3
    inspect.StrType: TEXT,
    inspect.BytesType: noted("base64"),
    inspect.ByteArrayType: noted("base64"),
    inspect.DateTimeType: noted("a time"),
    inspect.DateType: noted("a date"),
    inspect.TimeType: noted("a time of day"),
    inspect.TimeDeltaType: noted("a duration of ISO 8601"),
    inspect.UUIDType: noted("a UUID"),
}


def _of_type(info: inspect.Type, inside: tuple[type, ...]) -> ValueType:
    """The JSON type that msgspec accepts for a Python type. `inside` has the enclosing classes."""
    match info:
        case inspect.Metadata(type=inner):
            return _of_type(inner, inside)
        case inspect.UnionType(types=branches):
            return common([_of_type(branch, inside) for branch in branches])
        case inspect.EnumType(cls=enumeration):
            return _one_of([member.value for member in enumeration])
        case inspect.LiteralType(values=values):
            return _one_of(values)
        case inspect.CollectionType(item_type=item):
            return list_of(_of_type(item, inside))
        case inspect.TupleType() | inspect.NamedTupleType():
            return LIST
        case inspect.DictType(value_type=value):
            return map_of(_of_type(value, inside))
        case inspect.StructType() | inspect.DataclassType() | inspect.TypedDictType():
            return _of_class(info, inside)
    return _OF_PYTHON.get(type(info), UNKNOWN)


def _one_of(values: Iterable[object]) -> ValueType:
    """The type of a value that is one of these."""
    known = list(values)
    kinds = {type(value) for value in known}
    if kinds == {str}:
        return replace(TEXT, symbols=tuple(map(str, known)))
    return INTEGER if kinds == {int} else UNKNOWN


def _of_class(
    info: inspect.StructType | inspect.DataclassType | inspect.TypedDictType, inside: tuple[type, ...]
) -> ValueType:
    """The type of a class. A field with a default may be missing. A Struct ignores other names unless it forbids
    them."""
    if info.cls in inside or (isinstance(info, inspect.StructType) and info.array_like):
        return UNKNOWN
    fields: dict[str, ValueType] = {}
    for field in info.fields:
        kind_ = _of_type(field.type, (*inside, info.cls))
        fields[field.encode_name] = kind_ if field.required else nullable(kind_)
    if not isinstance(info, inspect.StructType) or not info.forbid_unknown_fields:
        return open_record_of(fields)
    return record_of(fields | ({info.tag_field: UNKNOWN} if info.tag_field else {}))


# -- the values of tests -----------------------------------------------------------------------------------------------


def of_values(values: Iterable[object]) -> ValueType:
    """A type with every name that occurs in one of the values. The types of the fields are unknown."""
    known = [value for value in values if value is not None]
    objects = [value for value in known if isinstance(value, dict)]
    lists = [value for value in known if isinstance(value, list)]
    if objects and len(objects) == len(known):
        names = dict.fromkeys(name for members in objects for name in members)
        return record_of({name: of_values(members.get(name) for members in objects) for name in names})
    if lists and len(lists) == len(known):
        return list_of(of_values(item for elements in lists for item in elements))
    return UNKNOWN
