"""CloudEvents in Kafka messages: the official SDK for Python writes what we read, and reads what we write."""

import json
import re
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from cloudevents.core.bindings.kafka import KafkaMessage, from_kafka_event, to_binary_event, to_structured_event
from cloudevents.core.v1.event import CloudEvent
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.schemas import cloud_events
from sluicegate.schemas.cloud_events import document, others, read_headers, written

TEXT = st.text(st.characters(min_codepoint=32, exclude_categories=("Cs", "Cc")), min_size=1, max_size=20)
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
DATA = st.dictionaries(TEXT, VALUE, min_size=1, max_size=4)
TIMES = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
ATTRIBUTES = st.fixed_dictionaries(
    {"id": TEXT, "source": TEXT, "type": TEXT, "specversion": st.just("1.0"), "time": TIMES},
    optional={"subject": TEXT, "traceparent": TEXT, "datacontenttype": st.just("application/json")},
)
BINARY = [("ce_specversion", b"1.0"), ("ce_id", b"7"), ("ce_source", b"/shop"), ("ce_type", b"order")]
STRUCTURED = [("content-type", b"application/cloudevents+json; charset=UTF-8")]
EVENT = {"specversion": "1.0", "id": "7", "source": "/shop", "type": "order"}


def seen(message: KafkaMessage) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(document(message.value, [*message.headers.items()]))
    return answer


@given(ATTRIBUTES, DATA)
def test_both_modes_of_the_sdk_are_read_as_one_document(attributes: dict[str, Any], data: dict[str, Any]) -> None:
    event = CloudEvent(dict(attributes), data)
    for message in (to_binary_event(event), to_structured_event(event)):
        cloud_event = seen(message)
        time = datetime.fromisoformat(cloud_event.pop("time"))
        assert cloud_event.pop("data") == data
        assert (cloud_event, time) == (_without(attributes, "time"), attributes["time"])


@given(ATTRIBUTES, st.binary(min_size=1))
def test_bytes_of_the_sdk_are_the_same_in_both_modes(attributes: dict[str, Any], data: bytes) -> None:
    event = CloudEvent({**attributes, "datacontenttype": "application/octet-stream"}, data)
    one, other = seen(to_binary_event(event)), seen(to_structured_event(event))
    assert one["data_base64"] == other["data_base64"]
    assert "data" not in one


def test_text_is_text_and_no_data_is_none() -> None:
    event = CloudEvent({**EVENT, "datacontenttype": "text/plain"}, "héllo")
    assert seen(to_binary_event(event))["data"] == seen(to_structured_event(event))["data"] == "héllo"
    assert "data" not in seen(to_binary_event(CloudEvent({**EVENT})))
    assert json.loads(document(None, BINARY)) == EVENT
    latin = [*BINARY, ("content-type", b"text/plain; charset=latin-1")]
    assert json.loads(document(b"\xe9", latin))["data_base64"] == "6Q=="


@given(ATTRIBUTES, DATA, st.sampled_from(["binary", "structured"]))
def test_the_sdk_reads_what_is_written(attributes: dict[str, Any], data: dict[str, Any], mode: str) -> None:
    answer = {**_without(attributes, "datacontenttype"), "time": attributes["time"].isoformat()}
    value, headers = written(mode, answer, json.dumps(data).encode())
    event = from_kafka_event(KafkaMessage({name: text or b"" for name, text in headers}, None, value or b""))
    assert event.get_data() == data
    assert event.get_attributes() == {**attributes, "datacontenttype": "application/json"}


@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_bytes_that_are_no_json_and_no_value_are_written_too(mode: str) -> None:
    for data in (b"\xff\x00", None):
        value, headers = written(mode, EVENT, data)
        event = from_kafka_event(KafkaMessage({name: text or b"" for name, text in headers}, None, value or b""))
        assert event.get_data() == data
        assert (event.get_datacontenttype() is None) == (data is None)


def test_a_message_that_was_read_is_an_event_of_the_structured_mode() -> None:
    """So a dead letter of it, or a record that goes on under another key, can be read again."""
    headers = [("h", b"\xff"), *BINARY, ("content-type", b"application/json")]
    value = document(b'{"n":1}', headers)
    again = read_headers(headers)
    assert document(value, again) is value
    assert again == [("h", b"\xff"), ("content-type", b"application/cloudevents+json")]
    assert from_kafka_event(KafkaMessage({n: v or b"" for n, v in again[1:]}, None, value)).get_data() == {"n": 1}
    assert others(again) == [("h", b"\xff")]


def test_the_last_header_of_a_name_counts() -> None:
    assert json.loads(document(None, [*BINARY, ("ce_type", b"other")]))["type"] == "other"


def dumped(**more: Any) -> bytes:
    return json.dumps({**EVENT, **more}).encode()


NO_EVENTS: dict[str, tuple[bytes | None, list[tuple[str, bytes | None]], str]] = {
    "plain": (b"{}", [("h", b"1")], "it has neither ce_ headers nor content-type application/cloudevents+json"),
    **{
        f"binary without {name}": (
            b"{}",
            [header for header in BINARY if header[0] != f"ce_{name}"],
            f"the mandatory attribute {name} is missing or empty",
        )
        for name in cloud_events.MANDATORY
    },
    **{
        f"structured without {name}": (
            json.dumps(_).encode(),
            STRUCTURED,
            f"the mandatory attribute {name} is missing or empty",
        )
        for name in cloud_events.MANDATORY
        for _ in [{key: text for key, text in EVENT.items() if key != name}]
    },
    "an empty id": (b"{}", [*BINARY, ("ce_id", b"")], "the mandatory attribute id is missing or empty"),
    "a number as id": (dumped(id=7), STRUCTURED, "the mandatory attribute id is not text"),
    "version 0.3": (dumped(specversion="0.3"), STRUCTURED, "of version 1.0: its specversion is another one"),
    "no utf-8": (b"{}", [*BINARY, ("ce_subject", b"\xff")], "its header ce_subject is not UTF-8"),
    "data as an attribute": (b"{}", [*BINARY, ("ce_data", b"1")], "is not the name of an attribute"),
    "a name with a dash": (b"{}", [*BINARY, ("ce_a-b", b"1")], "is not the name of an attribute"),
    "no value": (None, STRUCTURED, "has the content-type of an event, and no value"),
    "a batch": (
        b"[]",
        [("content-type", b"Application/CloudEvents-Batch+JSON; charset=UTF-8")],
        "is a batch of CloudEvents",
    ),
    "another format": (b"x", [("content-type", b"Application/CloudEvents+Avro")], "only application/cloudevents+json"),
    "no json": (b"{", BINARY, "Input data was truncated"),
    "more than one json": (b'1},"x":{', BINARY, "trailing characters"),
    "structured no json": (b"{", STRUCTURED, "Input data was truncated"),
    "structured no object": (b"[]", STRUCTURED, "its value is not a JSON object"),
}


@pytest.mark.parametrize("name", NO_EVENTS)
def test_what_is_no_event_says_why(name: str) -> None:
    value, headers, text = NO_EVENTS[name]
    with pytest.raises(msgspec.DecodeError, match=re.escape(text)):
        document(value, headers)


def _without(attributes: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: text for key, text in attributes.items() if key != name}
