"""Validates JSON in bounded time: for one schema, the time is linear in the size of the value.

The library's own rules take exponential time for alternatives that refer to the schema around them, quadratic time for
`uniqueItems`, and any time for a pattern. Here a reference is followed once for each value, items are compared by their
canonical bytes, and RE2 searches. Rules without such a bound are refused.
"""

from collections.abc import Callable, Iterator
from threading import local
from typing import Any

import re2
from jsonschema import SchemaError, ValidationError, validators
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from sluicegate.schemas import json

Errors = Iterator[ValidationError]
Keyword = Callable[[Any, Any, Any, Any], Errors]
REFUSED = ("unevaluatedItems", "unevaluatedProperties", "$dynamicRef", "$recursiveRef")


def checker(schema: Any) -> Callable[[Any], ValidationError | None]:
    """A function that returns the first error of a value. No schema is fetched. Raises ValueError for an invalid
    schema, and for one whose validation has no bound."""
    kind = validators.validator_for(schema, default=validators.Draft202012Validator)
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        raise ValueError(f"is not a JSON Schema ({' '.join(error.message.split())[:200]})") from None
    patterns = Patterns(schema)
    references = References(kind.VALIDATORS["$ref"])
    rules: dict[str, Keyword] = {
        "$ref": references.follow,
        "pattern": patterns.text,
        "patternProperties": patterns.properties,
        "additionalProperties": patterns.others,
        "uniqueItems": _unique,
        **dict.fromkeys(REFUSED, _refused),
    }
    extended = validators.extend(kind, {name: rule for name, rule in rules.items() if name in kind.VALIDATORS})
    check = extended(schema, registry=Registry())

    def first(value: Any) -> ValidationError | None:
        references.forget()
        try:
            return next(check.iter_errors(value), None)
        finally:
            references.forget()

    return first


class References:
    """Follows each reference once for each value, and remembers the outcome until the next value of the same thread."""

    def __init__(self, follow: Keyword) -> None:
        self._follow, self._here = follow, local()

    def forget(self) -> None:
        self._here.known = {}

    def follow(self, validator: Any, reference: Any, value: Any, schema: Any) -> Errors:
        known: dict[tuple[int, int], ValidationError | None] = self._here.known
        at = (id(schema), id(value))
        if at not in known:
            error = next(self._follow(validator, reference, value, schema), None)
            known[at] = error and ValidationError.create_from(error)
        if (error := known[at]) is not None:
            yield ValidationError.create_from(error)  # the caller extends the path of the error


class Patterns:
    """The patterns of a schema, compiled by RE2."""

    def __init__(self, schema: Any) -> None:
        self._search: dict[str, Callable[[str], Any]] = {}
        for rules in _rules(schema):
            for name in REFUSED:
                if name in rules:
                    raise ValueError(f"has {name}, whose validation has no bound; write it without")
            for pattern in _patterns(rules):
                self._search[pattern] = _searching(pattern)

    def text(self, validator: Any, pattern: str, value: Any, schema: Any) -> Errors:
        if isinstance(value, str) and not self._search[pattern](value):
            yield ValidationError("does not match")

    def properties(self, validator: Any, patterns: dict[str, Any], value: Any, schema: Any) -> Errors:
        for pattern, inner in patterns.items() if isinstance(value, dict) else ():
            search = self._search[pattern]
            for name, item in value.items():
                if search(name):
                    yield from validator.descend(item, inner, path=name, schema_path=pattern)

    def others(self, validator: Any, allowed: Any, value: Any, schema: Any) -> Errors:
        if not isinstance(value, dict):
            return
        named = schema.get("properties", {})
        searches = [self._search[pattern] for pattern in schema.get("patternProperties", {})]
        for name, item in value.items():
            if name in named or any(search(name) for search in searches):
                continue
            if isinstance(allowed, dict):
                yield from validator.descend(item, allowed, path=name)
            elif not allowed:
                yield ValidationError("has another property")


def _rules(schema: Any) -> Iterator[dict[str, Any]]:
    """The schema and all schemas inside it. Raises ValueError."""
    resource = Resource.from_contents(schema, default_specification=DRAFT202012)
    open_ = [resource]
    while open_:
        resource = open_.pop()
        if isinstance(resource.contents, dict):
            yield resource.contents
            try:
                open_ += resource.subresources()
            except (Unresolvable, TypeError, AttributeError):
                raise ValueError("is not a JSON Schema (its parts cannot be followed)") from None


def _patterns(rules: dict[str, Any]) -> Iterator[str]:
    if isinstance(pattern := rules.get("pattern"), str):
        yield pattern
    if isinstance(patterns := rules.get("patternProperties"), dict):
        yield from patterns


def _searching(pattern: str) -> Callable[[str], Any]:
    options = re2.Options()
    options.log_errors = False
    try:
        search: Callable[[str], Any] = re2.compile(pattern, options=options).search
    except re2.error:
        text = "RE2 does not take (it has no look-around and no back references, and bounds repetition)"
        raise ValueError(f"has the pattern {pattern[:80]!r}, which {text}; write another one") from None
    return search


def _refused(validator: Any, wanted: Any, value: Any, schema: Any) -> Errors:
    """Rejects a reference to a schema that is not part of the file, such as the schema of schemas."""
    raise NotImplementedError


def _unique(validator: Any, wanted: Any, value: Any, schema: Any) -> Errors:
    if wanted and isinstance(value, list) and len({json.canonical(_same(item)) for item in value}) < len(value):
        yield ValidationError("has an item twice")


def _same(value: Any) -> Any:
    """The value with 1.0 as 1: canonical bytes would distinguish them."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, list):
        return [_same(item) for item in value]
    return {name: _same(item) for name, item in value.items()} if isinstance(value, dict) else value
