"""The JSON Schema of the file, for editors. `python -m sluicegate.streams.config.schema` prints it; the committed copy
is schemas/documents/sluicegate.schema.json."""

import json
from typing import Any

from pydantic import BaseModel

from sluicegate.streams import units
from sluicegate.streams.config.sections import kafka
from sluicegate.streams.config.sections.fields import CLUSTER_NAME, TOPIC
from sluicegate.streams.config.sections.models import FileModel
from sluicegate.streams.config.sections.models_agent import AgentModel
from sluicegate.streams.config.sections.models_topics import DestinationModel

_ONE = {"$ref": "#/$defs/DestinationModel"}
_NAME = {"type": "string", "pattern": TOPIC}
"""The short form of a destination; `drop` has it, too."""
_ROUTE = {"anyOf": [_NAME, _ONE]}
_TO = {"anyOf": [_NAME, _ONE, {"type": "array", "minItems": 1, "items": _ROUTE}, {"type": "null"}], "default": None}
_ASIDE = ("default", "description", "examples")
"""What stands beside the choice between a value and a variable."""
VARIABLE = {"$ref": "#/$defs/Variable"}
_SETTINGS = {"$ref": "#/$defs/KafkaSettings"}
_CLUSTERS = {
    "type": "object",
    "properties": {
        kafka.DEFAULT: {
            "type": "string",
            "pattern": CLUSTER_NAME,
            "description": "Where `kafka` names several clusters: the one of the topics that name none.",
            "examples": ["east"],
        }
    },
    "additionalProperties": _SETTINGS,
}
_KINDS = {"boolean": "boolean", "integer": "integer", "number": "number"}


def schema() -> dict[str, Any]:
    """The schema of the files that `load` accepts. Every value may be a variable instead."""
    document = FileModel.model_json_schema()
    document["properties"]["kafka"] = {**_texts(FileModel, "kafka"), "anyOf": [_SETTINGS, _CLUSTERS]}
    document["$defs"]["KafkaSettings"] = _kafka()
    destination = DestinationModel.model_json_schema()
    document["$defs"] |= destination.pop("$defs", {})
    document["$defs"]["DestinationModel"] = destination
    document["$defs"]["AgentModel"]["properties"]["to"] = {**_texts(AgentModel, "to"), **_TO}
    result: dict[str, Any] = _open(_of_keys(document))
    result["$defs"]["Variable"] = {"type": "string", "pattern": r"\$\{.*\}"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Sluicegate", **result}


def _texts(model: type[BaseModel], name: str) -> dict[str, Any]:
    field = model.model_fields[name]
    return {"description": field.description, "examples": field.examples}


def _kafka() -> dict[str, Any]:
    """The schema of one cluster's settings."""
    texts = kafka.descriptions()
    properties = {
        name: {**_setting(*kafka.known_settings()[name]), "description": texts[name]} for name in kafka.allowed()
    }
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "required": ["bootstrap.servers"],
    }


def _setting(kind: str | int, *rest: str | int) -> dict[str, Any]:
    if kind == "choice":
        return {"enum": sorted({case for word in map(str, rest) for case in (word, word.upper(), word.lower())})}
    if kind in _KINDS:
        limits = {"minimum": rest[0], "maximum": rest[1]} if rest else {}
        return {"type": _KINDS[str(kind)], **limits}
    return {"type": ["string", "number", "boolean"]}


def _of_keys(node: Any) -> Any:
    """The schema without titles and the docstrings of models. Each key has only the description of its field."""
    if isinstance(node, list):
        return [_of_keys(item) for item in node]
    if not isinstance(node, dict):
        return node
    left_out = ("title", "description") if "properties" in node and "examples" not in node else ("title",)
    return {k: _of_keys(v) for k, v in node.items() if not (k in left_out and isinstance(v, str))}


def _open(node: Any) -> Any:
    """Allows a variable in place of each value that is not free text."""
    if isinstance(node, list):
        return [_open(item) for item in node]
    if not isinstance(node, dict):
        return node
    closed = (
        node.get("type") in ("integer", "number", "boolean")
        or "enum" in node
        or "const" in node
        or isinstance(node.get("pattern"), str)  # this mapping is a key with this name
    )
    if not closed:
        return {
            key: value if key in ("default", "required", "propertyNames", "examples") else _open(value)
            for key, value in node.items()
        }
    outside = {key: node[key] for key in _ASIDE if key in node}
    if "pattern" in node and "default" in outside:
        outside["default"] = _as_text(node["pattern"], outside["default"])
    return {"anyOf": [{k: v for k, v in node.items() if k not in _ASIDE}, VARIABLE], **outside}


def _as_text(pattern: str, value: Any) -> Any:
    """A default in the form of the file. Models hold durations and sizes as numbers."""
    if isinstance(value, list | tuple):
        return "..".join(map(units.written_duration, value))
    if isinstance(value, str):
        return value
    return units.written_size(value) if pattern == units.SIZE else units.written_duration(value) if value else "0s"


if __name__ == "__main__":
    print(json.dumps(schema(), indent=1))
