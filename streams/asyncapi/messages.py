"""The messages of an agent's topics: content type, headers and payload.

A JSON payload has a JSON Schema of draft 7, as AsyncAPI expects. An Avro payload has the schema itself, with its
`schemaFormat`. Payloads of handlers' messages, and of records without a schema, are not described.
"""

import json
from importlib.resources import files
from typing import Any

from sluicegate.schemas import SchemaOptions
from sluicegate.schemas.avro_values import CONTENT
from sluicegate.schemas.cloud_events import FORMS
from sluicegate.streams import formats
from sluicegate.streams.agent import Agent, Destination, RecurringMessage
from sluicegate.streams.topic_names import in_words

JsonObject = dict[str, Any]
BINDING = "0.5.0"
"""The version of AsyncAPI's bindings for Kafka."""

CONTENT_TYPES = {
    "json": "application/json",
    "json-schema": "application/json",
    "avro": "application/vnd.apache.avro",
    "protobuf": "application/vnd.google.protobuf",
}
AVRO = "application/vnd.apache.schema+json;version=1.9.0"
JSON_SCHEMA = "application/schema+json;version=draft-07"
STRUCTURED = "application/cloudevents+json"
_TYPES = {"long": "integer", "int": "integer", "float": "number", "double": "number", "boolean": "boolean"}


def record(agent: Agent, topic: str) -> JsonObject:
    """The message that the agent reads from the topic."""
    message: JsonObject = {"title": f"A record of {in_words(topic)}", **_content(agent.format)}
    if (payload := _schema(agent.schema)) is not None:
        message["payload"] = payload
    return message


def result(agent: Agent, to: Destination) -> JsonObject:
    """The message that the agent sends to the output. Raises ValueError for an Avro output that has no schema."""
    kind = agent.format_of(to)
    message: JsonObject = {"title": f"What {agent.name} sends to {to.topic}", **_content(kind)}
    if agent.aggregation is not None and agent.handler is None and not agent.rekeys:
        message["headers"] = headers("result-headers")
    payload = _payload(agent, to)
    if to.envelope is not None and to.envelope.mode == "structured":
        message["contentType"], payload = STRUCTURED, _event(payload, kind)
    if payload is not None:
        message["payload"] = payload
    return message


def dead_letter(agent: Agent) -> JsonObject:
    """A record or group that the agent could not use. Its bytes are unchanged; the headers give the reason."""
    return {"title": f"A dead letter of {agent.name}", "headers": headers("dead-letter-headers")}


def ended(agent: Agent) -> JsonObject:
    """The message of a group that ended without a result."""
    message = {"title": f"A group of {agent.name} that ended without a result", "contentType": "application/json"}
    return {**message, "headers": headers("result-headers")}


def scheduled(schedule: RecurringMessage) -> JsonObject:
    """The message of a schedule. Its payload is always the same."""
    payload = {"const": json.loads(schedule.value)}
    message: JsonObject = {"title": f"Schedule {schedule.name}", "summary": f"Sent at each time of {schedule.every}"}
    if schedule.key is not None:
        message["bindings"] = {"kafka": {"key": {"const": schedule.key}, "bindingVersion": BINDING}}
    return {**message, "contentType": "application/json", "payload": payload}


def headers(name: str) -> JsonObject:
    """A schema of `schemas/documents`, without references, which AsyncAPI would look up in its own document."""
    read = json.loads((files("sluicegate.schemas") / "documents" / f"{name}.schema.json").read_text(encoding="utf-8"))
    known = read.pop("$defs", {})
    del read["$schema"]
    inlined: JsonObject = _inlined(read, known)
    return inlined


def _inlined(schema: Any, known: JsonObject) -> Any:
    if isinstance(schema, list):
        return [_inlined(branch, known) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    own = {name: _inlined(value, known) for name, value in schema.items() if name != "$ref"}
    return {**_inlined(known[schema["$ref"].rpartition("/")[2]], known), **own} if "$ref" in schema else own


def _content(format: str) -> JsonObject:
    kind = CONTENT_TYPES.get(format)
    return {"contentType": kind} if kind else {}


def _schema(options: SchemaOptions | None) -> JsonObject | None:
    """The schema of a format if the file has it. A schema of a registry is unknown."""
    if options is None or not options.schema or options.kind == "PROTOBUF":
        return None
    form = AVRO if options.kind == "AVRO" else JSON_SCHEMA
    return {"schemaFormat": form, "schema": json.loads(options.schema)}


def _payload(agent: Agent, to: Destination) -> JsonObject | None:
    if agent.forwards_unchanged(to):
        return _schema(agent.schema)
    if to.format == "avro" and (to.schema is None or not to.schema.pinned):
        schema = to.schema.schema if to.schema is not None and to.schema.schema else formats.result_schema(agent)
        return {"schemaFormat": AVRO, "schema": json.loads(schema)}
    if to.format != "json":
        return _schema(to.schema)
    if to.select:
        known = _fields(agent)
        return {
            "type": "object",
            "properties": {field.name: {} if field.expression else known.get(field.name, {}) for field in to.select},
        }
    if agent.aggregation is None or agent.handler is not None or agent.rekeys:
        return None
    made = headers("result")
    made["properties"] = _fields(agent)
    if agent.windowed:
        made["required"] = [*made["required"], "window"]
    return made


def _fields(agent: Agent) -> JsonObject:
    """The fields of a result; empty for any other message."""
    if agent.aggregation is None:
        return {}
    types = formats.FieldTypes(agent)
    computed = {reducer.name: _json_type(types.of(reducer)["type"]) for reducer in agent.aggregation.compute}
    fixed: JsonObject = headers("result")["properties"]
    if not agent.windowed:
        del fixed["window"]
    return {**fixed, **computed}


def _json_type(avro: Any) -> JsonObject:
    """The JSON Schema of a value of this Avro type. Empty: any value."""
    if isinstance(avro, list):
        branches = [_json_type(part) for part in avro]
        return {"type": [part["type"] for part in branches]} if all("type" in part for part in branches) else {}
    if isinstance(avro, dict):
        if avro.get(CONTENT):
            return {}
        if avro["type"] == "record":
            return {
                "type": "object",
                "properties": {field["name"]: _json_type(field["type"]) for field in avro["fields"]},
            }
        if avro["type"] == "map":
            return {"type": "object", "additionalProperties": _json_type(avro["values"])}
        return {"type": "array", "items": _json_type(avro["items"])}
    return {"type": _TYPES.get(avro, avro if avro in ("null", "string") else "string")}


def _event(payload: JsonObject | None, format: str) -> JsonObject:
    """A CloudEvent in structured mode around a payload. A payload in another schema language is left out."""
    required = ["specversion", "id", "source", "type"]
    fields: JsonObject = {name: {"type": "string"} for name in (*required, "time", "datacontenttype", "partitionkey")}
    if format in FORMS:
        fields["data_base64"] = {"type": "string", "contentEncoding": "base64"}
    else:
        fields["data"] = {} if payload is None or "schemaFormat" in payload else payload
    return {"type": "object", "properties": fields, "required": required}
