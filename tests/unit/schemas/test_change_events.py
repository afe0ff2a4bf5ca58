"""Change events of Debezium: the envelope in its forms, and the row that it leaves."""

import json
from typing import Any

import msgspec
import pytest

from sluicegate.schemas.change_events import change, document, row_after, rows

PLACEHOLDER = "__debezium_unavailable_value"
EVENT = {"op": "u", "before": None, "after": {"id": 1, "note": "b"}, "source": {"lsn": 7}, "ts_ms": 1}


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize("value", [EVENT, {"payload": EVENT}, {"schema": {"type": "struct"}, "payload": EVENT}])
def test_the_envelope_is_read_by_itself_and_as_a_payload(value: dict[str, Any]) -> None:
    assert json.loads(document(encoded(value))) == EVENT
    assert document(document(encoded(value))) == document(encoded(value))


def test_a_column_with_the_name_of_the_payload_is_a_column() -> None:
    row = {"id": 1, "payload": {"op": "c"}, "op": "z"}
    value = document(encoded({"payload": {**EVENT, "after": row}}))
    assert json.loads(row_after(value) or b"") == row


def test_a_large_value_that_did_not_change_is_the_known_one() -> None:
    value = encoded({**EVENT, "after": {"id": 2, "note": PLACEHOLDER, "also": f"no {PLACEHOLDER}"}})
    known = encoded({"id": 1, "note": "long", "also": "other"})
    assert json.loads(row_after(value, known) or b"") == {"id": 2, "note": "long", "also": f"no {PLACEHOLDER}"}
    for before in (None, encoded({"id": 1})):
        with pytest.raises(msgspec.DecodeError, match="without a whole row"):
            row_after(value, before)


@pytest.mark.parametrize("op", ["c", "r", "u"])
def test_the_row_is_the_one_behind_the_change(op: str) -> None:
    assert json.loads(row_after(encoded({**EVENT, "op": op})) or b"") == EVENT["after"]


def test_a_delete_leaves_no_row() -> None:
    assert row_after(encoded({**EVENT, "op": "d"})) is None


@pytest.mark.parametrize("both", [(b'{"a":1}', None), (None, b'{"a":1}'), (b'{"a":1}', b'{"a":2}')])
def test_a_change_of_a_group_is_read_as_it_was_written(both: tuple[bytes | None, bytes | None]) -> None:
    assert rows(change(*both)) == both
    assert document(change(*both)) == change(*both)  # other programs may read it as a change event
