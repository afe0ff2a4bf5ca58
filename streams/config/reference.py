"""The keys of the file from the JSON Schema, for `sluicegate docs` and the reference page."""

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from sluicegate.streams import units
from sluicegate.streams.config.schema import VARIABLE, schema
from sluicegate.streams.config.sections.fields import FIELD, FUNCTION, LONGEST_EXPRESSION, NAME, TOPIC

ANY = "*"
"""Stands in a path for a name that the file chooses."""
SETTINGS = ("kafka",)
"""A cluster that has a name has the same settings."""
_CHOICES = ("anyOf", "items")
_PATTERNS = {
    units.DURATION: "duration",
    f"{units.DURATION}|^never$": "duration, or never",
    units.SPAN: "shortest and longest duration",
    units.SIZE: "size",
    units.TIME: "time",
    FUNCTION: "module:function",
    FIELD: "field path",
    TOPIC: "topic",
    NAME: "name",
}
_OTHERS = {"integer": "whole number", "number": "number", "boolean": "true or false", "null": "null", "string": "text"}


@dataclass(frozen=True)
class KeyReference:
    """One key. `path` has ANY for a name that the file chooses. `default` is None where the file has none. `kinds`
    describes its values, the most special first."""

    path: tuple[str, ...]
    description: str
    kinds: tuple[str, ...]
    required: bool
    default: Any
    example: Any

    @property
    def name(self) -> str:
        return ".".join(self.path)


@cache
def references() -> Mapping[str, KeyReference]:
    """The keys of the file by their dotted paths, in the order of the models."""
    keys: dict[str, KeyReference] = {}
    made = schema()
    for path, node, required in _keys(made, made["$defs"], ()):
        kinds = tuple(dict.fromkeys(_kinds(node, made["$defs"])))
        if node.get("default", "") is None:
            kinds = tuple(kind for kind in kinds if kind != "null")
        example = node["examples"][0] if "examples" in node else _any_value(node)
        key = KeyReference(path, node.get("description", ""), kinds, required, node.get("default"), example)
        keys.setdefault(key.name, key)
    return keys


def _keys(node: Any, parts: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any, bool]]:
    """The properties at and below the node. Each has its path, its own node, and whether it is required."""
    if isinstance(node, list):
        for branch in node:
            yield from _keys(branch, parts, path)
        return
    node = _resolved(node, parts)
    for name, value in node.get("properties", {}).items():
        below = (*path, name)
        yield below, value, name in node.get("required", ())
        yield from _keys(value, parts, below)
    if isinstance(node.get("additionalProperties"), dict) and path != SETTINGS:
        yield from _keys(node["additionalProperties"], parts, (*path, ANY))
    for word in _CHOICES:
        yield from _keys(node.get(word, []), parts, path)


def _resolved(node: Any, parts: Mapping[str, Any]) -> Any:
    return parts[node["$ref"].rpartition("/")[2]] if "$ref" in node else node


def _kinds(node: Any, parts: Mapping[str, Any]) -> Iterator[str]:
    if node == VARIABLE:
        return
    if "$ref" in node:
        yield from _kinds(_resolved(node, parts), parts)
    elif "anyOf" in node:
        for branch in node["anyOf"]:
            yield from _kinds(branch, parts)
    elif "enum" in node or "const" in node:
        yield from (_word(value) for value in node.get("enum", [node.get("const")]))
    elif node.get("type") == "array":
        inner = " or ".join(dict.fromkeys(_kinds(node.get("items", {}), parts)))
        yield f"list of {inner}" if inner and "items" in node else "list"
    elif node.get("type") == "object":
        yield _mapping(node, parts)
    else:
        yield _scalar(node)


def _mapping(node: Any, parts: Mapping[str, Any]) -> str:
    values = node.get("additionalProperties")
    if not isinstance(values, dict) or "properties" in _resolved(values, parts):
        return "mapping" if not isinstance(values, dict) else "mapping of names to mappings"
    inner = " or ".join(dict.fromkeys(_kinds(values, parts)))
    return f"mapping of names to {inner}"


def _scalar(node: Any) -> str:
    kind = node.get("type")
    if isinstance(kind, list):
        return " or ".join(_OTHERS[name] for name in kind)
    if "pattern" in node:
        return _PATTERNS.get(node["pattern"], "URL" if node["pattern"].endswith("://") else "text")
    if node.get("maxLength") == LONGEST_EXPRESSION:
        return "expression"
    limits = f" from {node['minimum']} to {node['maximum']}" if "minimum" in node and "maximum" in node else ""
    return _OTHERS.get(kind, "any value") + limits


def _word(value: Any) -> str:
    return {None: "null", True: "true", False: "false"}.get(value, str(value)) if not isinstance(value, str) else value


def _any_value(node: Any) -> Any:
    """A value for a key whose description has no example: keys of reducers and of Kafka's client."""
    choices = [node, *node.get("anyOf", ())]
    for choice in choices:
        if "enum" in choice:
            return choice["enum"][0]
        if "minimum" in choice:
            return choice["minimum"]
    kinds = {kind for choice in choices for kind in ([choice["type"]] if isinstance(choice.get("type"), str) else [])}
    fields = any(choice.get("pattern") == FIELD for choice in choices)
    return True if "boolean" in kinds else "amount" if fields else "shop:function" if "string" in kinds else "text"


def matching(written: str) -> list[KeyReference]:
    """The key of this path, or else the keys whose path ends with it. A name that the file chooses matches ANY."""
    every = references().values()
    whole = [key for key in every if re.fullmatch(_pattern(key.path), written)]
    return whole or [
        key
        for key in every
        if any(re.fullmatch(_pattern(key.path[start:]), written) for start in range(1, len(key.path)))
    ]


def _pattern(path: tuple[str, ...]) -> str:
    return r"\.".join(r"[^.]+" if part == ANY else re.escape(part) for part in path)


def near(written: str) -> list[str]:
    """Up to three keys that the text may be a misspelling of."""
    ends: dict[str, list[str]] = {}
    for key in references().values():
        for start in range(len(key.path)):
            ends.setdefault(".".join(key.path[start:]), []).append(key.name)
    matches = difflib.get_close_matches(written, ends, n=12, cutoff=0.6)
    return list(dict.fromkeys(name for match in matches for name in ends[match]))[:3]


def below(key: KeyReference) -> list[KeyReference]:
    """The keys directly below, also below a name that the file chooses."""
    depth = len(key.path)
    inside = [
        reference for reference in references().values() if reference.path[:depth] == key.path and reference != key
    ]
    return [key for key in inside if len([part for part in key.path[depth:] if part != ANY]) == 1]
