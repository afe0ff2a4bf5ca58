"""The codecs of an agent, and the derived Avro schema of its results."""

import json
import re
from dataclasses import replace
from importlib.resources import files
from typing import Any

from sluicegate.schemas import Avro, Codec, SchemaOptions, codec
from sluicegate.schemas.avro_values import JSON_TEXT
from sluicegate.schemas.cloud_events import KafkaHeaders, is_structured
from sluicegate.schemas.event_codec import of_events
from sluicegate.schemas.json import encode
from sluicegate.streams.agent import Agent, Reducer
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.reducers import kind_of

AVRO_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_SIMPLE = ("boolean", "int", "long", "float", "double", "bytes", "string")
_TIME = {"type": "long", "logicalType": "timestamp-millis"}
WINDOW = {
    "name": "window",
    "type": [
        "null",
        {
            "type": "record",
            "name": "Window",
            "fields": [
                {"name": "start", "type": _TIME},
                {"name": "end", "type": _TIME},
                {"name": "closed_by", "type": ["null", "string"], "default": None},
                {"name": "revision", "type": "int"},
            ],
        },
    ],
    "default": None,
    "doc": "The window of the group, in event time. closed_by: event, idle, at_most or late.",
}


REVISED = (
    {"name": "revision", "type": "int", "default": 1, "doc": "How many results the group had with this one."},
    {"name": "final", "type": "boolean", "default": True, "doc": "False: the group goes on."},
)
NO_SCHEMA = "has no schema, and {what} has none of its own; write schema: FILE.avsc beside the format"


def reads(agent: Agent) -> Codec:
    """The codec for the input of the agent's rule: records, events as documents, or rows of a table as JSON. Raises
    ValueError with a hint."""
    if agent.keeps_rows:
        return codec("json")
    fields = of_records(agent)
    return of_events(fields) if agent.events and agent.format != "json" else fields


def of_records(agent: Agent) -> Codec:
    """The codec of the values of the agent's records. Raises ValueError with a hint."""
    return codec(agent.format, agent.schema)


def record_value(agent: Agent | None, value: object, headers: KafkaHeaders = ()) -> bytes | None:
    """Encode a value as a record that the agent can read, with these headers. Bytes are unchanged. Without an agent the
    format is JSON. Raises ConfigurationError, and the errors of the format's `encode`."""
    if value is None or isinstance(value, bytes):
        return value
    if agent is None:
        return encode(value)
    if agent.format == "raw" and isinstance(value, str):
        return value.encode()
    form = reads(agent) if is_structured(headers) else codec(agent.format, agent.schema)
    written = encode(value) if agent.format in ("json", "raw") else form.encode(value)
    if not isinstance(written, bytes):
        raise ConfigurationError(f"agent {agent.name}: encode of {agent.format} gave no bytes; send bytes")
    return written


def writes(agent: Agent) -> Codec:
    """The codec of the agent's outputs; JSON without a destination. Raises ValueError with a hint."""
    if agent.to is None:
        return codec("json")
    return codec(agent.to.format, destination(agent) if agent.to.format == "avro" else agent.to.schema)


def destination(agent: Agent) -> SchemaOptions | None:
    """The Avro settings of the agent's outputs: the settings of `to`, or the derived schema of its results. None: the
    outputs are not Avro. Raises ValueError."""
    if agent.to is None or agent.to.format != "avro":
        return None
    if agent.to.schema is not None and agent.to.schema.schema:
        return agent.to.schema
    if agent.handler is not None or agent.aggregation is None:
        raise ValueError(
            NO_SCHEMA.format(what="a record that is forwarded" if agent.forwards else "what a handler sends")
        )
    if agent.to.select:
        raise ValueError("has no schema; write schema: FILE.avsc beside the format")
    options = agent.to.schema or Avro("")
    return replace(options, schema=result_schema(agent))


def namespace(agent: Agent) -> str:
    """The namespace of the schemas that are derived for its outputs."""
    return "sluicegate." + re.sub(r"\W|^(?=\d)", "_", agent.name, flags=re.ASCII)


def result_schema(agent: Agent) -> str:
    """The schema of the fixed fields (schemas/documents/result.avsc) and the computed fields of a result, and of its
    rows, which are JSON text. All but the fixed fields have defaults. Raises ValueError."""
    schema = json.loads((files("sluicegate.schemas") / "documents" / "result.avsc").read_text(encoding="utf-8"))
    schema["namespace"] = namespace(agent)
    if agent.windowed:
        schema["fields"].append(WINDOW)
    if agent.aggregation is not None and agent.aggregation.emit is not None:
        schema["fields"] += REVISED
    types = FieldTypes(agent)
    for reducer in agent.aggregation.compute if agent.aggregation else ():
        if not re.fullmatch(AVRO_NAME, reducer.name):
            raise ValueError(
                f"cannot hold the computed field {reducer.name!r}; name it with letters, digits and _ only"
            )
        schema["fields"].append({"name": reducer.name, **types.of(reducer)})
    for lookup in agent.lookups:
        schema["fields"].append({"name": lookup.name, "type": ["null", JSON_TEXT], "default": None})
    return json.dumps(schema)


class FieldTypes:
    """The types of computed fields: exact if the input is Avro, otherwise all types that JSON allows."""

    def __init__(self, agent: Agent) -> None:
        self._named: dict[str, Any] = {}
        self._input, self._within = None, "data." if agent.events else ""
        if agent.format == "avro" and agent.schema is not None and not agent.schema.pinned:
            from sluicegate.schemas.avro import parsed
            from sluicegate.schemas.avro_sizes import size_of

            self._input = parsed(agent.schema.schema)
            size_of(self._input, self._named)

    def of(self, reducer: Reducer) -> dict[str, Any]:
        simple = self._simple(reducer.field) or JSON_TEXT
        match kind_of(reducer).result:
            case "integer":
                return {"type": "long", "default": 0}
            case "ranking":
                numbers = [{"name": name, "type": "long"} for name in ("count", "error")]
                fields = [{"name": "value", "type": "string"}, *numbers]
                entry = {"type": "record", "name": f"{reducer.name}_entry", "fields": fields}
                return {"type": {"type": "array", "items": entry}, "default": []}
            case "counts":
                return {"type": {"type": "map", "values": "long"}, "default": {}}
            case "list":
                return {"type": {"type": "array", "items": simple}, "default": []}
            case "double":
                types: list[Any] = ["double"]
            case "number":
                types = self._number(reducer.field)
            case _:
                types = [simple]
        return {"type": ["null", *types], "default": None}

    def _number(self, path: str | None) -> list[Any]:
        known = self._simple(path)
        return (
            ["long"] if known in ("int", "long") else ["double"] if known in ("float", "double") else ["long", "double"]
        )

    def _simple(self, path: str | None) -> Any:
        """The type of the field at the path, if it is simple. The attributes of an event have none."""
        known = path is not None and self._input is not None and path.startswith(self._within)
        field = field_type(self._input, path.removeprefix(self._within), self._named) if path and known else None
        kind = field["type"] if isinstance(field, dict) else field
        if isinstance(field, dict) and kind == "enum":
            return "string"
        return field if kind in _SIMPLE and isinstance(kind, str) else None


def field_type(schema: Any, path: str, named: dict[str, Any]) -> Any:
    """The type at `a.b`, without null. None: the field does not exist, or has several types."""
    for name in path.split("."):
        schema = _one(schema, named)
        if not isinstance(schema, dict):
            return None
        if schema["type"] == "map":
            schema = schema["values"]
            continue
        fields = {field["name"]: field["type"] for field in schema.get("fields", ())}
        if name not in fields:
            return None
        schema = fields[name]
    return _one(schema, named)


def _one(schema: Any, named: dict[str, Any]) -> Any:
    if isinstance(schema, list):
        others = [branch for branch in schema if branch != "null"]
        schema = others[0] if len(others) == 1 else None
    if isinstance(schema, dict) and isinstance(schema["type"], dict | list):
        return _one(schema["type"], named)
    return named.get(schema, schema) if isinstance(schema, str) else schema
