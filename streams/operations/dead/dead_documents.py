"""Dead rows and dead letters as JSON documents, as commands, the console and the archive show them."""

import time
from base64 import b64encode
from collections.abc import Container, Sequence
from typing import Any

from sluicegate.streams.operations.dead.dead_letters import Letter
from sluicegate.streams.operations.dead.dead_rows import DeadOutput


def of_row(output: DeadOutput) -> dict[str, Any]:
    """A dead row as JSON, without its key and value."""
    return {
        "id": output.row.id,
        "kind": "row",
        "agent": output.partition.agent,
        "topic": output.partition.topic,
        "partition": output.partition.number,
        "offset": None,
        "to": output.row.topic,
        "stage": "produce",
        "reason": "rejected",
        "attempts": str(output.attempts),
        "age": None,
        "retried": False,
        "error": output.reason,
    }


def of_letter(letter: Letter, retried: Container[str] = ()) -> dict[str, Any]:
    """A dead letter as JSON, without its key and value. `retried` are the ids of the letters that were retried."""
    return {
        "id": letter.place,
        "kind": "group" if letter.whole else "record" if letter.item is None else "item",
        "agent": letter.agent,
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "letter": letter.id,
        "stage": letter.stage,
        "reason": letter.reason,
        "attempts": letter.attempts,
        "age": round(max(0.0, time.time() - letter.at), 1),
        "retried": letter.id in retried,
        "error": letter.error,
        "proven": letter.proven,
    }


def payload(rows: Sequence[DeadOutput], letters: Sequence[Letter]) -> dict[str, Any]:
    """The key, the value and the headers as text. Of several headers with one name, the first."""
    record = rows[0].row if rows else letters[0]
    headers = [{"name": name, "value": _text(content)} for name, content in record.headers]
    return {"key": _text(record.key), "value": _text(record.value), "headers": headers}


def whole(dead: DeadOutput | Letter) -> dict[str, Any]:
    """The key, the value and the headers as JSON without loss: Base64, or null."""
    record = dead if isinstance(dead, Letter) else dead.row
    headers = [{"name": name, "value": _base64(content)} for name, content in record.headers]
    return {"key": _base64(record.key), "value": _base64(record.value), "headers": headers}


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode(errors="replace")


def _base64(value: bytes | None) -> str | None:
    return None if value is None else b64encode(value).decode()
