"""The JSON Schema of the file, for editors. `python -m sluicegate.streams.config.schema` prints it; the committed copy
is schemas/documents/sluicegate.schema.json."""

import json
from typing import Any

from sluicegate.streams.config import kafka
from sluicegate.streams.config.models import DestinationModel, FileModel

_ONE = {"$ref": "#/$defs/DestinationModel"}
_ROUTE = {"anyOf": [_ONE, {"enum": ["drop"]}]}
_TO = {"anyOf": [_ONE, {"type": "array", "minItems": 1, "items": _ROUTE}, {"type": "null"}], "default": None}
VARIABLE = {"$ref": "#/$defs/Variable"}
_KINDS = {"boolean": "boolean", "integer": "integer", "number": "number"}


def schema() -> dict[str, Any]:
    """The schema of what `load` accepts. Every value may be a variable instead."""
    made = FileModel.model_json_schema()
    made["properties"]["kafka"] = _kafka()
    made["$defs"]["DestinationModel"] = DestinationModel.model_json_schema()
    made["$defs"]["AgentModel"]["properties"]["to"] = _TO
    result: dict[str, Any] = _open(_without_titles(made))
    result["$defs"]["Variable"] = {"type": "string", "pattern": r"\$\{.*\}"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Sluicegate", **result}


def _kafka() -> dict[str, Any]:
    properties = {name: _setting(*kafka.known()[name]) for name in kafka.allowed()}
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "required": ["bootstrap.servers"],
    }


def _setting(kind: str | int, *rest: str | int) -> dict[str, Any]:
    if kind == "choice":
        return {"enum": _cases(rest)}
    if kind in _KINDS:
        limits = {"minimum": rest[0], "maximum": rest[1]} if rest else {}
        return {"type": _KINDS[str(kind)], **limits}
    return {"type": ["string", "number", "boolean"]}


def _cases(words: tuple[str | int, ...]) -> list[str]:
    return sorted({case for word in map(str, words) for case in (word, word.upper(), word.lower())})


def _without_titles(node: Any) -> Any:
    """Pydantic's titles repeat the key."""
    if isinstance(node, list):
        return [_without_titles(item) for item in node]
    if isinstance(node, dict):
        return {k: _without_titles(v) for k, v in node.items() if not (k == "title" and isinstance(v, str))}
    return node


def _open(node: Any) -> Any:
    """Let a variable stand for each value that is not free text."""
    if isinstance(node, list):
        return [_open(item) for item in node]
    if not isinstance(node, dict):
        return node
    closed = (
        node.get("type") in ("integer", "number", "boolean") or "enum" in node or "const" in node or "pattern" in node
    )
    if not closed:
        return {
            key: value if key in ("default", "required", "propertyNames") else _open(value)
            for key, value in node.items()
        }
    outside = {key: node[key] for key in ("default", "description") if key in node}
    if "pattern" in node and not isinstance(outside.get("default"), str):
        outside.pop("default", None)  # of a duration or size it is the parsed number
    return {"anyOf": [{k: v for k, v in node.items() if k not in ("default", "description")}, VARIABLE], **outside}


if __name__ == "__main__":
    print(json.dumps(schema(), indent=1))
