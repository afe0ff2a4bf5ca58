"""Derives the Avro schema of an output with `select` if the file names no schema."""

import json
import re
from collections.abc import Mapping
from typing import Any

from sluicegate.schemas.avro_values import JSON_TEXT
from sluicegate.streams.agent import Agent, Destination, Selected
from sluicegate.streams.aggregation.clauses import MESSAGE, message_type
from sluicegate.streams.aggregation.results import copied_from
from sluicegate.streams.expressions.avro import of_avro
from sluicegate.streams.expressions.check import check
from sluicegate.streams.expressions.faults import ExpressionError
from sluicegate.streams.expressions.parse import parse
from sluicegate.streams.expressions.types import UNKNOWN, ValueKind, ValueType, open_record_of
from sluicegate.streams.formats import AVRO_NAME, NO_SCHEMA, field_type, namespace, result_schema

_KINDS: dict[ValueKind, list[Any]] = {
    "integer": ["long"],
    "double": ["double"],
    "number": ["long", "double"],
    "text": ["string"],
    "time": ["string"],
    "duration": ["string"],
    "boolean": ["boolean"],
}


def selected_schema(agent: Agent, to: Destination) -> str:
    """The schema of the selected names. A copied field of a result has the type of that field. Any other field has the
    type of its expression; it is JSON text if the type is unknown. Every field is nullable, because a copy of a missing
    field is omitted. Raises ValueError."""
    if agent.handler is not None:
        raise ValueError(NO_SCHEMA)
    result = json.loads(result_schema(agent)) if agent.aggregation is not None else None
    known = _of_record(agent) if result is None else _of_result(result)
    fields, defined = [], set[str]()
    for field in to.select:
        if not re.fullmatch(AVRO_NAME, field.name):
            raise ValueError(f"cannot hold the selected field {field.name!r}; name it with letters, digits and _ only")
        types = _copied(field, result) or _computed(field, known)
        fields.append({"name": field.name, "type": ["null", *_once(types, defined)], "default": None})
    name = re.sub(r"\W|^(?=\d)", "_", to.topic, flags=re.ASCII)
    return json.dumps({"type": "record", "name": name, "namespace": namespace(agent), "fields": fields})


def _of_result(result: Any) -> dict[str, ValueType]:
    return {field["name"]: of_avro(field["type"], {}) for field in result["fields"]}


def _computed(field: Selected, known: Mapping[str, ValueType]) -> list[Any]:
    """The Avro types of a computed field. Raises ValueError."""
    try:
        kind = check(parse(field.expression or field.name), known)[0].kind
    except ExpressionError as error:
        raise ValueError(f"the selected field {field.name!r} has no expression; correct it") from error
    return _KINDS.get(kind, [JSON_TEXT])


def _copied(field: Selected, result: Any) -> list[Any] | None:
    """The Avro types of a copied field of a result, without null. None: the field is not a copy, or its type is
    unknown."""
    path = None if result is None else copied_from(field)
    if path is None:
        return None
    if len(path) > 1:
        one = field_type(result, ".".join(path), {})
        return [one] if one is not None else None
    types = next((column["type"] for column in result["fields"] if column["name"] == path[0]), None)
    return [one for one in types if one != "null"] if isinstance(types, list) else types and [types]


def _once(types: list[Any], defined: set[str]) -> list[Any]:
    """Replace every repeated definition of a named type by its name."""
    made = []
    for one in types:
        name = one["name"] if isinstance(one, dict) and "name" in one else None
        made.append(name if name in defined else one)
        if name is not None:
            defined.add(name)
    return made


def _of_record(agent: Agent) -> dict[str, ValueType]:
    """The names that expressions of a forwarded record can use. Its fields are known if the records are Avro."""
    fields: dict[str, ValueType] = {}
    if agent.format == "avro" and agent.schema is not None and agent.schema.schema and not agent.schema.pinned:
        from sluicegate.schemas.avro import parsed
        from sluicegate.schemas.avro_sizes import size_of

        schema, named = parsed(agent.schema.schema), dict[str, Any]()
        size_of(schema, named)
        data = of_avro(schema, named)
        fields = {"data": data} if agent.events else dict(data.fields or {})
    known = {**fields, MESSAGE: message_type(open_record_of(fields))}
    for let in agent.let:
        known[let.name] = check(parse(let.expression), known)[0]
    return known | {lookup.name: UNKNOWN for lookup in agent.lookups}
