"""Outbox rows: ids, headers, documents, partitions; and everything that could make one impossible to write."""

import base64
import json
import random
import uuid
import zlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sluicegate.schemas import Codec, codec
from sluicegate.streams.aggregation.events import Fire, Refused, timed_out
from sluicegate.streams.aggregation.results import of_milliseconds, rfc3339
from sluicegate.streams.contracts.ids import NAMESPACE
from sluicegate.streams.contracts.values import OutboxRow, Partition
from sluicegate.streams.outbox.rows import Rows
from sluicegate.streams.rules import rule_of
from tests.mutation.twins import without
from tests.unit.engine.driver import LogRecord
from tests.unit.engine.scene import an_agent

PLACE = Partition("app", "sums", "in", 3)
TOPIC_ID = "Zm9vYmFy"


class Facts:
    """Every topic has seven partitions."""

    def partitions(self, topic: str) -> int:
        return 7

    def partition_of(self, key: bytes, count: int) -> int:
        return zlib.crc32(key) % count

    def flush(self, timeout: float) -> int:
        return 0


def some_rows(form: Codec | None = None, most: int = 1_000_000) -> Rows:
    rows = Rows(PLACE, an_agent(), form or codec("json"), Facts(), most)
    rows.begin("lineage-1", 41, TOPIC_ID)
    return rows


def fire(key: bytes = b"k", reason: str = "count", trace: str | None = None, **values: Any) -> Fire:
    return Fire(key, 2, reason, 10, 17, 1_700_000_000.1234, 1_700_000_009.0, trace, values)


def letter(reason: str = "undecodable", error: str = "said", **record: Any) -> Refused:
    headers = [("mine", b"\xfe"), ("sluicegate-id", b"x"), ("n", None)]
    fields = {"t": "in", "p": 3, "o": 99, "k": b"\xff\x00", "v": b"{", "h": headers} | record
    return Refused(LogRecord(**fields), "decode", reason, error)


def made(event: Any, rows: Rows | None = None) -> OutboxRow:
    (row,) = (rows or some_rows()).make([event])
    return row


def said(row: OutboxRow) -> dict[str, str | None]:
    return {name: None if value is None else value.decode("latin-1") for name, value in row.headers}


def canonical(*parts: Any) -> str:
    return json.dumps(parts, separators=(",", ":"), ensure_ascii=False)


@pytest.mark.parametrize("topic_id", ["", TOPIC_ID, 'ü"quoted'])
def test_ids_are_uuid5_of_the_canonical_array(topic_id: str) -> None:
    rows = some_rows()
    rows.begin("t", 0, topic_id)
    result, dead = rows.make([fire(), letter()])
    identity = uuid.uuid5(NAMESPACE, canonical("fire", "app", "sums", "in", topic_id, 3, 10))
    assert said(result)["sluicegate-fire"] == str(identity)
    assert (
        result.id == said(result)["sluicegate-id"] == str(uuid.uuid5(NAMESPACE, canonical("output", str(identity), 0)))
    )
    assert dead.id == str(uuid.uuid5(NAMESPACE, canonical("dead", "app", "sums", "in", topic_id, 3, 99)))


def test_a_result_has_all_its_headers_in_ascii() -> None:
    row = made(fire(trace="00-trace-ü"))
    assert said(row) == {
        "sluicegate-id": row.id,
        "sluicegate-shard": "app/sums/in/3>out#lineage-1",
        "sluicegate-seq": "42",
        "sluicegate-fire": said(row)["sluicegate-fire"],
        "sluicegate-reason": "count",
        "sluicegate-count": "2",
        "sluicegate-first": "in/3/10",
        "sluicegate-last": "in/3/17",
        "sluicegate-agent": "sums",
        "sluicegate-rule": rule_of(an_agent()).short,
        "traceparent": "00-trace-?",
    }
    assert all((value or b"").isascii() and name.isascii() for name, value in row.headers)
    assert (row.number, row.lineage, row.topic, row.key, row.partition) == (
        42,
        "lineage-1",
        "out",
        b"k",
        zlib.crc32(b"k") % 7,
    )


def test_the_document_says_key_count_reason_and_times_first() -> None:
    row = made(fire(total=3.5, rows=[{"a": 1}]))
    assert list(json.loads(row.value or b"").items()) == [
        ("key", "k"),
        ("count", 2),
        ("reason", "count"),
        ("opened_at", "2023-11-14T22:13:20.123Z"),
        ("closed_at", "2023-11-14T22:13:29.000Z"),
        ("total", 3.5),
        ("rows", [{"a": 1}]),
    ]


def test_a_key_that_is_no_text_stands_in_base64() -> None:
    document = json.loads(made(fire(key=b"\xff\x00")).value or b"")
    assert next(iter(document)) == "key_base64"
    assert "key" not in document
    assert base64.b64decode(document["key_base64"]) == b"\xff\x00"


def test_numbers_grow_by_one_over_results_and_dead_letters() -> None:
    rows = some_rows()
    assert [row.number for row in rows.make([fire(), letter(), fire()])] == [42, 43, 44]
    assert rows.number == 44


def test_a_dead_letter_is_byte_for_byte_and_says_why() -> None:
    row = made(letter(error="line\nü", at=1_700_000_000_500))
    assert (row.key, row.value, row.topic) == (b"\xff\x00", b"{", "dead")
    assert row.headers[3:6] == [("mine", b"\xfe"), ("dead-sluicegate-id", b"x"), ("n", None)]
    about = {
        name.removeprefix("sluicegate-dead-"): value
        for name, value in said(row).items()
        if name.startswith("sluicegate-dead-")
    }
    assert about.pop("version")
    assert about == {
        "reason": "undecodable",
        "error": "line ?",
        "stage": "decode",
        "attempts": "1",
        "topic": "in",
        "partition": "3",
        "offset": "99",
        "timestamp": "2023-11-14T22:13:20.500Z",
        "app": "app",
        "agent": "sums",
    }


def test_a_dead_letter_without_a_key_goes_to_the_partition_of_its_source() -> None:
    assert made(letter(k=None)).partition == zlib.crc32(b"app/sums/in/3") % 7


@pytest.mark.parametrize("at", [2**62, -(2**62), 253_402_300_800_000, 0])
def test_a_record_may_claim_any_time(at: int) -> None:
    assert (said(made(letter(at=at)))["sluicegate-dead-timestamp"] or "").endswith("Z")


def test_times_are_utc_with_milliseconds() -> None:
    assert rfc3339(0.0) == "1970-01-01T00:00:00.000Z"
    assert rfc3339(1e30) == "9999-12-31T23:59:59.000Z"


def test_times_are_those_of_the_standard_library() -> None:
    chance = random.Random(11)
    spans = (1.0, 1e4, 2e9, 5e9, 2e11)
    times = [chance.uniform(-span if span < 1e10 else 0.0, span) for span in spans for _ in range(2_000)]
    times += [-0.0000004, 0.9999996, 1.9995, 1_700_000_000.9999997, -1.0]
    for at in times:
        assert rfc3339(at) == datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
        since = timedelta(milliseconds=int(at * 1_000))
        shown = (datetime(1970, 1, 1, tzinfo=UTC) + since).isoformat(timespec="milliseconds")
        assert of_milliseconds(int(at * 1_000)) == shown[:-6] + "Z"


def test_headers_that_cannot_be_read_do_not_keep_a_record_from_its_dead_letter() -> None:
    class Unreadable(LogRecord):
        def headers(self) -> Any:
            raise SystemError("names that are not text")

    row = made(Refused(Unreadable("in", 3, 99, b"k", b"{"), "decode", "undecodable", "said"))
    assert row.value == b"{"


def test_a_result_too_large_for_a_message_is_a_dead_letter_that_says_where_its_records_are() -> None:
    row = made(fire(rows=["x" * 2000]), rows=some_rows(most=2000))
    assert (row.topic, row.key, row.value) == ("dead", b"k", None)
    assert said(row)["sluicegate-dead-reason"] == "too-large"
    assert "10 to 17" in (said(row)["sluicegate-dead-error"] or "")
    assert said(row)["sluicegate-first"] == "in/3/10"


@pytest.mark.parametrize("size", [10, 5000])
def test_a_group_that_timed_out_and_is_a_dead_letter_keeps_its_reason(size: int) -> None:
    row = made(timed_out(fire(reason="timeout", rows=["x" * size])), some_rows(most=3000))
    reasons = [value for name, value in row.headers if name == "sluicegate-dead-reason"]
    assert row.topic == "dead"
    assert reasons == [b"timeout"]
    assert ("the result has " in (said(row)["sluicegate-dead-error"] or "")) is (size == 5000)
    assert (row.value is None) is (size == 5000)


class Plain:
    """A format of the user's that only knows what Python's json knows."""

    @staticmethod
    def encode(document: Any) -> bytes:
        return json.dumps(document).encode()


def test_a_format_of_the_users_gets_plain_values() -> None:
    rows = codec("json").shown(b'{"a": 1}')
    form = Codec("my:format", json.loads, Plain.encode, json.loads)
    assert json.loads(made(fire(rows=[rows]), rows=some_rows(form)).value or b"")["rows"] == [{"a": 1}]


@pytest.mark.parametrize("encode", [lambda document: 1 / 0, lambda document: "text", lambda document: None])
def test_a_result_that_cannot_be_written_is_a_dead_letter_and_not_the_end(encode: Any) -> None:
    row = made(fire(), rows=some_rows(Codec("my:format", json.loads, encode, json.loads)))
    assert (row.topic, row.value, said(row)["sluicegate-dead-reason"]) == ("dead", None, "unencodable")


def test_a_value_that_json_cannot_write_is_a_dead_letter_and_not_the_end() -> None:
    assert said(made(fire(odd=object())))["sluicegate-dead-reason"] == "unencodable"


def test_without_lineage_two_claims_share_a_shard() -> None:
    with without("lineage"):
        assert said(made(fire()))["sluicegate-shard"] == "app/sums/in/3>out#"
