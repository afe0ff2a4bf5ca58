"""Translates pydantic's errors into Sluicegate's messages. They never contain the invalid value."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import ErrorDetails

from sluicegate.streams.config.text.problems import FileFinding, Path, dotted
from sluicegate.streams.config.text.scalars import Unknown
from sluicegate.streams.hints import did_you_mean

_EXAMPLES = {
    "agents": "write the agents' names as keys below it",
    "aggregate": "write what completes a group, such as count: 100",
    "app": "write a name, such as app: flights",
    "compute": "write NAME: count or NAME: {sum: FIELD} for each",
    "dedupe": "write {id: header:NAME, horizon: 1h}",
    "id": "write header:NAME, a field path, or key",
    "count": "write a whole number, such as 100",
    "correlate": "write {legs: {NAME: TOPIC, OTHER: TOPIC}, timeout: 15m}",
    "legs": "write NAME: TOPIC, or NAME: {from: TOPIC, key: FIELD}, for each leg",
    "hot_groups": "write a whole number, such as 100000",
    "throttle": "write {limit: 100, per: 1s}",
    "emit": "write {every: 10s}, {count: 100} or {on: change}",
    "equals": "write the value that completes the group",
    "from": "write the topic it reads",
    "send": "write {topic: TOPIC, key: KEY, value: VALUE}",
    "expect": "write {topic: TOPIC, key: KEY, value: {FIELD: VALUE}}",
    "expect_nothing": "write the topic's name",
    "deploy": "write {file: FILE, open: POLICY}",
    "window": "write {tumbling: 5m, time: FIELD, grace: 30s}",
    "http": "write {port: 9464, host: 127.0.0.1}, or false",
    "kafka": "write bootstrap.servers: host:9092 below it",
    "key": "write message, a field path, or {field: PATH}",
    "repartition": "write the name of the topic that has the records under their new key, such as shop.by-customer",
    "outbox": "write {retention: 1h, poll: 1s} or the like, or false",
    "timeouts": "write {lease: 5m, batch: 500, poll: 1s}, or false",
    "degraded": "write {age: 1m, dead: 1}",
    "unhealthy": "write {age: 10m, dead: 1000}",
    "port": "write 0 (a free one) to 65535",
    "store": "write a URL, such as sqlite:///state.db",
    "timeout": "write 30s or {after: 30s, since: first}",
    "to": "write the topic's name, or {topic: NAME}",
    "topic": "write the topic's name",
    "handler": "write package.module:function, or a list of them",
    "on_error": "write {decode: dead-letter, produce: dead, expression: dead-letter}",
    "retry": "write {attempts: 5, backoff: 1s..60s}",
    "lookup": "write NAME: {table: TABLE, column: COLUMN, key: FIELD, fields: [FIELDS]}",
    "having": "write an expression of the result, such as count > 1",
    "let": "write NAME: EXPRESSION for each computed field",
    "where": "write an expression, such as amount > 100",
    "tests": "write the name of a test, and its steps as a list below it",
    "until": "write an expression, such as group.total >= 500, or {field: PATH, equals: VALUE}",
}
_OTHER_KEYS = {
    "filter": "where",
    "group_by": "aggregate.key",
    "input": "from",
    "join": "correlate",
    "output": "to",
    "sink": "to",
    "source": "from",
}
"""Words of other products for keys of an agent."""
_MISSING = _EXAMPLES | {"fields": "write the fields of the row that are added, such as [name, tier]"}
_KINDS = {
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "float_type": "must be a number",
    "list_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
}


def present(location: Sequence[str | int], tree: Any) -> Path:
    """The part of pydantic's location that exists in the file, without steps that only the normal form has."""
    path: list[str | int] = []
    for step in location:
        if _holds(tree, step):
            tree = tree[step]
            path.append(step)
    return tuple(path)


def _holds(tree: object, step: str | int) -> bool:
    if isinstance(tree, Mapping):
        return step in tree
    return isinstance(tree, list) and isinstance(step, int) and step < len(tree)


def finding(error: ErrorDetails, tree: object, keys: Mapping[str, Sequence[str]]) -> FileFinding:
    """The finding for the error. `keys` names the known keys of each place, for example of `agents.*.to`."""
    path = present(error["loc"], tree)
    kind, context = error["type"], error.get("ctx", {})
    if kind == "missing":
        name = str(error["loc"][-1])
        return FileFinding((*path, name), "is missing", _MISSING.get(name, "add it"))
    last = str(path[-1]) if path else ""
    if kind == "refused":
        return FileFinding(path, str(context["what"]), str(context["hint"]))
    if kind == "extra_forbidden":
        return FileFinding(path, "unknown key", _unknown_key(path, keys))
    if kind == "literal_error":
        return _not_a_word(path, context)
    if kind.startswith(("greater_than", "less_than")):
        bound = context.get("ge", context.get("le"))
        least = kind.startswith("greater")
        return FileFinding(path, f"must be at {'least' if least else 'most'} {bound}", "write a number in that range")
    hint = "write one of the two, without quotes" if kind == "bool_type" else "correct it, or leave it out"
    return FileFinding(path, _KINDS.get(kind, "is not valid"), _EXAMPLES.get(last, hint))


def _unknown_key(path: Path, keys: Mapping[str, Sequence[str]]) -> str:
    name = str(path[-1])
    here = place(path[:-1])
    deeper = [at for at, names in keys.items() if at.startswith(f"{here}.") and name in names]
    if deeper:
        return f"did you mean {deeper[0].removeprefix(here + '.')}.{name}?"
    if here.endswith(".aggregate") and name in keys.get(place(path[:-2]), ()):
        return f"did you mean {dotted((*path[:-2], name))}?"
    if here == "agents.*" and name in keys.get("", ()):
        return "write it at the top of the file"
    return did_you_mean(name, keys.get(here, ()), _OTHER_KEYS if here == "agents.*" else None)


def _not_a_word(path: Path, context: Mapping[str, Any]) -> FileFinding:
    words = str(context["expected"]).replace("'", "")
    return FileFinding(path, f"must be {words}", "write one of these words" if " or " in words else f"write {words}")


def place(path: Path) -> str:
    """`("agents", "delays", "from", 1)` is `agents.*.from`: the place without names and numbers."""
    steps = [step for step in path if isinstance(step, str)]
    named = {1} if steps[:1] in (["agents"], ["tests"]) else set()
    named |= {3} if steps[:1] == ["agents"] and steps[2:3] == ["lookup"] else set()
    named |= {4} if steps[:1] == ["agents"] and steps[2:4] == ["correlate", "legs"] else set()
    return ".".join("*" if i in named else step for i, step in enumerate(steps))


def mended(tree: Any, error: ErrorDetails) -> None:
    """Change the tree at the error so that the rest can be checked: an extra key is removed, and a wrong or missing
    value becomes Unknown."""
    path: Path = present(error["loc"], tree)
    if error["type"] == "missing":
        path = (*path, error["loc"][-1])
    for step in path[:-1]:
        tree = tree[step]
    if error["type"] == "extra_forbidden":
        tree.pop(path[-1], None)
    elif path:
        tree[path[-1]] = Unknown(dotted(path))
