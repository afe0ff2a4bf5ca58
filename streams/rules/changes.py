"""The differences between two documents of an agent, and what each difference means for open groups."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sluicegate.streams.expressions.parse import parse
from sluicegate.streams.expressions.scope import roots
from sluicegate.streams.keys import (
    COMPUTED,
    CONVERT,
    DROP,
    ENDS,
    FILE,
    FINISH,
    INPUT,
    KEPT,
    POLICIES,
    TOPICS,
    ChangeClass,
)
from sluicegate.streams.reducers import REDUCERS, kept_as
from sluicegate.streams.rules.classes import OF_AN_AGENT, severity
from sluicegate.streams.rules.document import AgentDocument
from sluicegate.streams.windowers import WRITTEN

ROWS = ("key", "where", "let")
"""The keys that decide which rows of a table are in which group. They stay as they are while rows are known."""


class Change(NamedTuple):
    """A key whose value differs. `old` or `new` None: the file does not have the key. `policies` as in ChangeClass."""

    path: str
    old: Any
    new: Any
    kind: ChangeClass
    policies: tuple[str, ...]


def changes(old: AgentDocument, new: AgentDocument) -> list[Change]:
    """The changes, by path. Both documents come from `document`. Raises ExpressionError."""
    differences = [
        change for name in sorted({*old, *new}) if old.get(name) != new.get(name) for change in _of_key(name, old, new)
    ]
    return [_policies(difference, old, new) for difference in differences]


def kind_of(differences: Sequence[Change]) -> ChangeClass:
    """The most severe class of these changes."""
    return min((difference.kind for difference in differences), key=severity, default=FILE)


def policies_of(differences: Sequence[Change]) -> tuple[str, ...]:
    """The policies that suit all of these changes."""
    return tuple(policy for policy in POLICIES if all(policy in difference.policies for difference in differences))


def _of_key(name: str, old: AgentDocument, new: AgentDocument) -> Iterator[Change]:
    one, other = old.get(name), new.get(name)
    match name:
        case "from":
            yield from _of_topics(one or [], other or [])
        case "aggregate" if one is not None and other is not None:
            yield from _of_aggregate(one, other, _over_table(old) and _over_table(new))
        case "let":
            yield from _of_lets(old, new)
        case "correlate" if one is not None and other is not None:  # with the worker's clock, the key has no timeout
            yield from _differences(name, {"timeout": {}, **one}, {"timeout": {}, **other})
        case _:
            yield from _differences(name, one, other)


def _differences(path: str, old: Any, new: Any) -> Iterator[Change]:
    """The deepest keys that differ. A list whose length differs is one value."""
    if isinstance(old, dict) and isinstance(new, dict) and _known(path, {*old, *new}):
        for name in sorted({*old, *new}):
            yield from _differences(f"{path}.{name}", old.get(name), new.get(name))
    elif path == "to" and isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _of_route(f"to[{number}]", one, other)
    elif old != new:
        yield _change(path, old, new, OF_AN_AGENT[path])


def _known(path: str, names: set[str]) -> bool:
    return all(f"{path}.{name}" in OF_AN_AGENT for name in names)


def _of_route(path: str, old: Any, new: Any) -> Iterator[Change]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted({*old, *new}):
            if old.get(name) != new.get(name):
                yield _change(f"{path}.{name}", old.get(name), new.get(name), OF_AN_AGENT[f"to.{name}"])
    elif old != new:
        yield _change(path, old, new, OF_AN_AGENT["to"])


def _of_topics(old: Sequence[Any], new: Sequence[Any]) -> Iterator[Change]:
    before, after = _by_topic(old), _by_topic(new)
    for topic in sorted({*before, *after}):
        one, other = before.get(topic), after.get(topic)
        if one is None or other is None:
            yield _change("from", topic if one is not None else None, topic if other is not None else None, TOPICS)
            continue
        for name in ("dedupe", "envelope"):
            if one.get(name) != other.get(name):
                yield _change(f"from.{topic}.{name}", one.get(name), other.get(name), OF_AN_AGENT[f"from.{name}"])


def _by_topic(sources: Sequence[Any]) -> dict[str, dict[str, str]]:
    """The settings of each topic."""
    return dict((source, {}) if isinstance(source, str) else (source["topic"], source) for source in sources)


def _of_aggregate(old: AgentDocument, new: AgentDocument, table: bool) -> Iterator[Change]:
    for name in sorted({*old, *new}):
        one, other = old.get(name), new.get(name)
        if name == "compute":
            yield from _of_compute(_named(one), _named(other), table)
        elif name == "on_missing" and "ignore" in (one, other) and one != other:
            yield _change("aggregate.on_missing", one, other, COMPUTED)  # numbers are counted in other slots
        else:
            yield from _differences(f"aggregate.{name}", one, other)


def _of_compute(old: Mapping[str, Any], new: Mapping[str, Any], table: bool) -> Iterator[Change]:
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            kept = name not in new or _is_kept(new[name], old.values(), table)
            yield _change(f"aggregate.compute.{name}", old.get(name), new.get(name), KEPT if kept else COMPUTED)
    if old == new and [*old] != [*new]:
        yield _change("aggregate.compute", [*old], [*new], KEPT)


def _is_kept(reducer: Any, reducers: Any, table: bool) -> bool:
    """Whether the field can be computed from what the groups hold already."""
    if reducer == "count" or reducer in reducers:
        return True
    kind, field = _reducer(reducer)
    shares = _accumulator(kind, table)
    return shares != "" and any(
        _accumulator(name, table) == shares and field == other for name, other in map(_reducer, reducers)
    )


def _accumulator(kind: str, table: bool) -> str:
    """The name of the accumulator that reducers of this kind share; empty: they share none."""
    entry = REDUCERS.get(kind)
    if table and entry is not None and entry.of_rows is not None:
        return entry.of_rows.accumulator
    return entry.accumulator if entry is not None else ""


def _has_function(reducer: Any) -> bool:
    kind, _ = _reducer(reducer)
    return kind in REDUCERS and REDUCERS[kind].takes == "function"


def _reducer(reducer: Any) -> tuple[str, Any]:
    """The kind, and the field or function."""
    kind, argument = next(iter(reducer.items())) if isinstance(reducer, dict) else (reducer, None)
    return kind, argument["field"] if isinstance(argument, dict) else argument


def _of_lets(old: AgentDocument, new: AgentDocument) -> Iterator[Change]:
    """The changes of computed fields. Open groups were filled with the fields that the key or a reducer reads."""
    before, after = _named(old.get("let")), _named(new.get("let"))
    filled = _filling(old, before) | _filling(new, after)
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            kind = COMPUTED if name in filled else OF_AN_AGENT["let"]
            yield _change(f"let.{name}", before.get(name), after.get(name), kind)
    if before == after and [*before] != [*after]:
        moved = [name for name in before if name in filled] != [name for name in after if name in filled]
        yield _change("let", [*before], [*after], COMPUTED if moved else OF_AN_AGENT["let"])


def _filling(document: AgentDocument, lets: dict[str, str]) -> set[str]:
    """The names that the key and the reducers read, with the computed fields that these read."""
    reducers = _named(document.get("aggregate", {}).get("compute")).values()
    fields = [field for reducer in reducers if (field := _reducer(reducer)[1]) and not _has_function(reducer)]
    wanted = {path.partition(".")[0] for path in (*fields, document.get("key", ""))}
    for name in reversed(lets):
        if name in wanted:
            wanted |= roots(parse(lets[name]))
    return wanted


def _named(items: Sequence[Mapping[str, Any]] | None) -> dict[str, Any]:
    return {name: value for item in items or () for name, value in item.items()}


def _change(path: str, old: Any, new: Any, kind: ChangeClass) -> Change:
    return Change(path, old, new, kind, kind.policies)


def _policies(change: Change, old: AgentDocument, new: AgentDocument) -> Change:
    """The change with its policies. A shared buffer holds records and not groups, so its records are folded again after
    any change, and no other policy is possible."""
    if _over_table(old) or _over_table(new):
        goes_on = _over_table(old) and _over_table(new) and change.path.partition(".")[0] not in ROWS
        return change._replace(policies=tuple(policy for policy in change.policies if policy == CONVERT and goes_on))
    if change.path == "scope":
        return change._replace(policies=(DROP,)) if old.get("scope") == "shared" else change
    if old.get("scope") == new.get("scope") == "shared" and change.kind != TOPICS:
        return change._replace(policies=() if change.kind == INPUT else (CONVERT,))
    if change.path == "revision" and not (has_functions(old) or has_functions(new)):
        change = change._replace(policies=POLICIES)
    if _goes_by_log(old) or _goes_by_log(new):
        return change._replace(policies=_of_windows(change, _moved(old, new), _finishes(old) and _finishes(new)))
    return change


def _over_table(document: AgentDocument) -> bool:
    """Whether the groups hold the rows of a table. Such a group cannot end or begin anew, because its rows are added
    only once."""
    sources = [source for source in document.get("from", ()) if isinstance(source, dict)]
    return "aggregate" in document and any(source.get("envelope") == "debezium" for source in sources)


def _goes_by_log(document: AgentDocument) -> bool:
    """Whether the position of the owner in the log ends groups: windows and correlations."""
    return "window" in document.get("aggregate", {}) or "correlate" in document


def _moved(old: AgentDocument, new: AgentDocument) -> bool:
    """Whether windows of one kind in the file are kept as groups of another kind."""
    before, after = _kept_as(old), _kept_as(new)
    return any(after.get(word, kept) != kept for word, kept in before.items())


def _kept_as(document: AgentDocument) -> dict[str, str]:
    """The kind of the groups of windows, by the key with their size."""
    rule = document.get("aggregate", {})
    window = rule.get("window", {})
    kinds = [_reducer(reducer)[0] for reducer in _named(rule.get("compute")).values()]
    ends = "count" in rule or "until" in rule
    revised = isinstance(window.get("late"), dict) or "emit" in document
    return {entry.word: kept_as(entry, kinds, ends, revised) for entry in WRITTEN if entry.word in window}


def _finishes(document: AgentDocument) -> bool:
    """Whether its open groups can finish beside a changed rule."""
    window = document.get("aggregate", {}).get("window", {})
    return "last" not in window and all(entry.finishes for entry in WRITTEN if entry.word in window)


def _of_windows(change: Change, moved: bool, finishes: bool) -> tuple[str, ...]:
    """The policies for open windows and correlations. They go on only with the same contents, and only if windows are
    stored in the same form (`moved`: they are not)."""
    goes_on = () if moved or change.kind in (KEPT, COMPUTED) else (CONVERT,)
    finishing = (FINISH,) if finishes else ()
    return tuple(policy for policy in change.policies if policy in (*finishing, *goes_on, *ENDS))


def has_functions(document: AgentDocument) -> bool:
    """Whether the agent calls code of the application."""
    reducers = _named(document.get("aggregate", {}).get("compute")).values()
    outputs = document.get("to", ())
    routes = outputs if isinstance(outputs, list) else (outputs,)
    formats = [output.get("format", "") for output in (document, *routes) if isinstance(output, dict)]
    return bool(document.get("handler") or any(map(_has_function, reducers)) or any(":" in name for name in formats))
