"""What the native reader takes, it reads as Python does; it takes what is plain, and declines the rest."""

import json
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from sluicegate.schemas import Avro, codec, native
from tests.fuzz.seeds import SEED, TIMES, replayable
from tests.native.edges import edges
from tests.native.same import DECLINED, NEW, REFUSED, TAKEN, Both, both, drawn, judged, switched
from tests.unit.schemas.avros import SHOP, by, cases
from tests.unit.schemas.test_avro import ORDER

pytest.importorskip("sluicegate_native", reason="make native")
RECORDS, MUTATIONS = 150 * TIMES, 27


def test_random_records_and_mutations_of_them_give_the_bytes_of_python_or_are_declined(
    record_property: Callable[[str, object], None],
) -> None:
    total: Counter[str] = Counter()

    @seed(SEED)
    @settings(database=None, deadline=None, max_examples=RECORDS, suppress_health_check=[*HealthCheck])
    @given(cases(), st.data())
    def tried(case: tuple[Any, Any], data: st.DataObject) -> None:
        schema, value = case
        written, random = by(schema).encode(value), Random(data.draw(st.integers(0, 2**32)))
        total.update(judged(drawn(data, schema), written, random, MUTATIONS))

    with replayable():
        tried()
    record_property("judged", dict(total))
    assert total[f"whole {TAKEN}"] > RECORDS / 4
    assert total[TAKEN] > RECORDS
    assert total[REFUSED] > RECORDS * MUTATIONS / 4


def test_data_at_the_edges_of_each_type_in_each_place_give_the_bytes_of_python_or_are_declined() -> None:
    known: dict[str, Both] = {}
    lines: Counter[str] = Counter()
    for schema, names, value in edges():
        name = repr((schema, names))
        if name not in known:
            known[name] = both(schema, names)
        lines[known[name].judge(value)] += 1
    assert lines[TAKEN] > 900
    assert lines[REFUSED] > 500
    assert lines[DECLINED] < lines[TAKEN] / 2


@pytest.mark.parametrize("change", ["a field less", "a field more", "none"])
def test_records_of_another_schema_give_the_bytes_of_python_or_are_declined(change: str) -> None:
    known: dict[str, Both] = {}
    lines: Counter[str] = Counter()
    for schema, names, value in edges():
        if isinstance(schema, dict) and schema.get("name") == "R":
            fields = {"a field less": schema["fields"][:1], "a field more": [*schema["fields"], NEW]}
            read = {**schema, "fields": fields.get(change, schema["fields"])}
            names = frozenset({"v"}) if names is None and change == "a field more" else names
            name = repr((schema, names))
            if name not in known:
                known[name] = both(read, names, writer_schema=json.dumps(schema))
            lines[known[name].judge(value)] += 1
    assert lines[TAKEN] > 700
    assert lines[REFUSED] > 400


NOT_PLAIN = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}


@pytest.mark.parametrize("names", [None, {"customer"}, {"at", "note", "items"}, set()])
def test_a_plain_record_is_taken_with_any_fields(names: set[str] | None) -> None:
    readers = both(SHOP, None if names is None else frozenset(names))
    value = by(SHOP).encode(ORDER)
    assert readers.judge(value) == TAKEN
    assert readers.plain is not None
    assert json.loads(readers.plain(value) or b"") == {
        name: text for name, text in ORDER.items() if names is None or name in names
    }


def test_a_field_that_is_not_plain_is_in_nobody_s_way_unless_it_is_wanted() -> None:
    schema = {**SHOP, "fields": [*SHOP["fields"], {"name": "price", "type": NOT_PLAIN}]}
    value = by(schema).encode({**ORDER, "price": "1.50"})
    assert both(schema, frozenset({"customer"})).judge(value) == TAKEN
    assert both(schema, frozenset({"price"})).plain is None


@pytest.mark.parametrize("wanted", [None, 7])
@pytest.mark.parametrize("frame", [b"", b"\0", b"\0\0\0\0\7", b"\0\0\0\0\6", b"\0\0\0\7\0", b"\1\0\0\0\7", b"\0" * 6])
def test_frames_are_taken_as_python_takes_them(frame: bytes, wanted: int | None) -> None:
    value = by(SHOP).encode(ORDER)
    readers = both(SHOP, frozenset({"customer"}), framing="confluent", schema_id=wanted)
    fits = len(frame) == 5 and frame[0] == 0 and wanted in (None, frame[4])
    assert not fits or readers.judge(frame + value) == TAKEN
    assert {readers.judge(frame + value), readers.judge(frame)} <= {TAKEN, REFUSED}


def test_what_is_no_message_is_declined() -> None:
    plain = both(SHOP, None).plain
    assert plain is not None
    assert [plain(value) for value in (None, "text", bytearray(b"\0"))] == [None] * 3  # type: ignore[arg-type]


def test_a_kind_that_it_does_not_know_is_an_error_and_one_too_deep_is_left_to_python() -> None:
    with switched("require"):
        kernel = native.kernel()
    assert kernel.module is not None
    deep: Any = ("int",)
    for _ in range(70):
        deep = ("array", deep)
    for kind in (("nothing",), ("clock", 32, 7), deep):
        with pytest.raises(ValueError):
            kernel.module.Reader(kind, False, None)
        assert kernel.plain_text(kind, False, None) is None


def test_the_codec_reads_with_it_and_says_of_a_broken_record_what_python_says() -> None:
    with switched("require"):
        form = codec("avro", Avro(json.dumps(SHOP)))
    with switched("off"):
        python = codec("avro", Avro(json.dumps(SHOP)))
    value = python.encode(ORDER)
    assert form.decode(value) == python.decode(value) == ORDER
    for broken in (value[:-1], value + b"x", b""):
        types = []
        for item in (form, python):
            with pytest.raises(Exception) as caught:
                item.decode(broken)
            types.append((type(caught.value), str(caught.value)))
        assert types[0] == types[1]
