"""Inlines the references of an Avro schema: each named type is defined where it is first used."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

MOST_REFERENCES = 200
_PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
_NAMED = frozenset(("record", "error", "enum", "fixed"))
_INNER = ("type", "items", "values")


def referred(version: Callable[[Any], Any], schema: Any) -> dict[str, str]:
    """The texts of all schemas that the schema refers to, directly or through others, by the names of the references.
    `version` returns the schema of a reference; its errors pass through."""
    texts: dict[str, str] = {}
    waiting = [*(schema.references or ())]
    while waiting and len(texts) <= MOST_REFERENCES:
        reference = waiting.pop()
        if reference.name not in texts:
            meant = version(reference)
            texts[reference.name] = str(meant.schema_str)
            waiting += meant.references or ()
    return texts


def bundled(text: str, referred: Mapping[str, str]) -> str:
    """The schema with the schemas that it refers to. Raises ValueError for more than MOST_REFERENCES, and for a text
    that is not a schema."""
    if len(referred) > MOST_REFERENCES:
        raise ValueError(f"more than {MOST_REFERENCES} references")
    try:
        known = {name: part for other in referred.values() for name, *part in _defined(json.loads(other), "")}
        return json.dumps(_Bundle(known).whole(json.loads(text), ""))
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError("one of them is not an Avro schema") from error


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _names(node: dict[str, Any]) -> bool:
    """Whether it defines a named type."""
    return isinstance(kind := node.get("type"), str) and kind in _NAMED


def _namespace(node: dict[str, Any], enclosing: str) -> str:
    """The namespace inside of a named type."""
    name = str(node["name"])
    return name.rpartition(".")[0] if "." in name else str(node.get("namespace", enclosing))


def _defined(node: Any, namespace: str) -> Iterator[tuple[str, Any, str]]:
    """Each named type that the schema defines, at any depth: its full name, its definition, the namespace around it."""
    for part in node if isinstance(node, list) else [node]:
        if not isinstance(part, dict):
            continue
        inside = namespace
        if _names(part):
            inside = _namespace(part, namespace)
            yield _full(str(part["name"]), inside), part, namespace
        for inner in [*(part.get(name) for name in _INNER), *(field["type"] for field in part.get("fields", ()))]:
            yield from _defined(inner, inside)


class _Bundle:
    """Types by full name. A type that was written once is referred to by its name afterwards."""

    def __init__(self, known: Mapping[str, Sequence[Any]]) -> None:
        """`known` has a definition for each full name, and the namespace around it."""
        self._known = known
        self._written: set[str] = set()

    def whole(self, node: Any, namespace: str) -> Any:
        """The node with the definitions of the types that it refers to. `namespace` is the enclosing one."""
        if isinstance(node, str):
            if node in _PRIMITIVES:
                return node
            full = _full(node, namespace)
            full = full if full in self._known or full in self._written else node
            return full if full in self._written or full not in self._known else self.whole(*self._known[full])
        if isinstance(node, list):
            return [self.whole(part, namespace) for part in node]
        if not isinstance(node, dict):
            return node
        if _names(node):
            return self._type(node, namespace)
        inner = {name: self.whole(node[name], namespace) for name in _INNER if name in node}
        return node | inner

    def _type(self, node: dict[str, Any], namespace: str) -> Any:
        inside = _namespace(node, namespace)
        full = _full(str(node["name"]), inside)
        if full in self._written and full in self._known:
            return full
        self._written.add(full)
        inlined = node | {"name": full.rpartition(".")[2], "namespace": inside}
        if "fields" in node:
            inlined["fields"] = [field | {"type": self.whole(field["type"], inside)} for field in node["fields"]]
        return inlined
