"""Judges every result and dead letter that the engine makes in a process of the tests by the published schemas."""

import json
from contextlib import suppress
from functools import cache
from importlib.resources import files
from typing import Any

import jsonschema
import pytest

from sluicegate.schemas.json import encode as json_text
from sluicegate.streams.aggregation.results import document
from sluicegate.streams.contracts.values import OutboxRow
from sluicegate.streams.outbox import row_loop, rows

OF_ONE_SHAPE = 20  # messages with the same fields and words that are judged: a check takes 0.3 ms
UNPUBLISHED = "unknown"
"""The reason with which the shadow ends a group in memory: nothing was published of it."""
wrong: list[str] = []
"""What the schemas refuse. A fixture looks after each test: the engine would take an error for one of a record."""
_known: dict[tuple[Any, ...], int] = {}


@cache
def schema(name: str) -> Any:
    text = (files("sluicegate.schemas") / "documents" / f"{name}.schema.json").read_text(encoding="utf-8")
    return jsonschema.Draft202012Validator(json.loads(text))


def judge(name: str, document: dict[str, Any], *words: str) -> None:
    shape = (name, *document, *(document.get(word) for word in words))
    _known[shape] = _known.get(shape, 0) + 1
    if _known[shape] > OF_ONE_SHAPE:
        return
    wrong.extend(f"{name}.schema.json: {error.message}: {document}" for error in schema(name).iter_errors(document))


def texts(row: OutboxRow) -> dict[str, str]:
    return {name: (value or b"").decode("latin-1") for name, value in row.headers if name.startswith("sluicegate-")}


def install(patch: pytest.MonkeyPatch) -> None:
    """In place of names that the modules of rows import: a twin changes the functions of those modules."""

    def judged_document(fire: Any) -> dict[str, Any]:
        made = document(fire)
        judge_whole(made)
        return made

    def judge_whole(made: dict[str, Any]) -> None:
        with suppress(TypeError, ValueError, RecursionError):  # what no document can hold becomes a dead letter
            if made["reason"] != UNPUBLISHED:
                judge("result", json.loads(json_text(made)), "reason")

    def judged_values(*fields: Any) -> row_loop.RowValues:
        values = row_loop.RowValues(*fields)

        def encode(made: dict[str, Any]) -> bytes:
            judge_whole(made)
            return values.encode(made)

        return values._replace(encode=encode)

    def judged_row(*fields: Any) -> OutboxRow:
        row = OutboxRow(*fields)
        text = texts(row)
        if "sluicegate-dead-stage" in text:
            judge("dead-letter-headers", text, "sluicegate-dead-reason", "sluicegate-dead-stage")
        elif text.get("sluicegate-reason", UNPUBLISHED) != UNPUBLISHED:
            judge("result-headers", text, "sluicegate-reason")
        return row

    patch.setattr(rows, "document", judged_document)
    patch.setattr(rows, "OutboxRow", judged_row)
    patch.setattr(rows, "RowValues", judged_values)
    patch.setitem(row_loop._FREE, "OutboxRow", judged_row)
    row_loop.row_loop.cache_clear()
