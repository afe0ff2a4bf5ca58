"""The cost of a record grows with its size and not faster, whatever it holds: lines, memory and time of inputs of n,
2n and 4n bytes, for each reader of a record and each of many shapes. `make fuzz` takes all pairs of them and larger
inputs; every other run takes a part, which the seed chooses."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from sluicegate.schemas import avro_sizes, native, protobuf_values
from sluicegate.streams.expressions import times
from tests.fuzz import binary, targets
from tests.fuzz.cost import A_BYTE_TIME, Case, faults
from tests.fuzz.seeds import TIMES, drawn, replayable
from tests.fuzz.shapes import headers, records, values
from tests.fuzz.targets import Run

LINES_OF, TIME_OF = (1_024, 65_536) if TIMES > 1 else (256, 2_048)
DRAWN = 4 * TIMES
PART = 15
"""Cases of a reader, of a run that is not whole."""

READERS: Mapping[str, Callable[[], Mapping[str, Run]]] = {
    "json": targets.of_json,
    "expressions": targets.of_expressions,
    "json-schema": targets.of_json_schema,
    "rules": targets.of_rules,
}


def of_values(reader: str) -> Iterator[Case]:
    runs = READERS[reader]()
    for shape, make in records(drawn(f"cost of {reader}"), DRAWN):
        for name, run in runs.items():
            yield Case(f"{name}, {shape}", make, run)


def of_headers() -> Iterator[Case]:
    for shape, make in headers():
        for name, run in targets.of_headers().items():
            yield Case(f"{name}, {shape}", make, run)


def judged(name: str, cases: Sequence[Case], fuzzed: Callable[[int], None]) -> None:
    chosen = cases if TIMES > 1 else drawn(f"costs of {name}").sample(cases, min(PART, len(cases)))
    with replayable():
        assert [fault for case in chosen for fault in faults(case, LINES_OF, TIME_OF)] == []
    fuzzed(len(chosen) * 5)


@pytest.mark.timeout(3600 if TIMES > 1 else 240)
@pytest.mark.parametrize("reader", READERS)
def test_the_cost_of_a_value_grows_no_faster_than_the_value(reader: str, fuzzed: Callable[[int], None]) -> None:
    judged(reader, [*of_values(reader)], fuzzed)


@pytest.mark.timeout(3600 if TIMES > 1 else 240)
@pytest.mark.parametrize("kernel", ["python", "native"])
def test_the_cost_of_an_avro_record_grows_no_faster_than_the_record(
    kernel: str, fuzzed: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    if kernel == "native" and native.kernel().module is None:
        pytest.skip("the native reader is not installed: make native")
    monkeypatch.setenv(native.SWITCH, "require" if kernel == "native" else "off")
    judged(f"avro {kernel}", [*binary.avro()], fuzzed)


@pytest.mark.timeout(3600 if TIMES > 1 else 240)
def test_the_cost_of_a_protobuf_message_grows_no_faster_than_the_message(fuzzed: Callable[[int], None]) -> None:
    judged("protobuf", [*binary.protobuf()], fuzzed)


@pytest.mark.timeout(3600 if TIMES > 1 else 240)
def test_the_cost_of_headers_grows_no_faster_than_they_do(fuzzed: Callable[[int], None]) -> None:
    judged("headers", [*of_headers()], fuzzed)


# -- what the measure finds --------------------------------------------------------------------------------------------


def case(name: str, cases: Sequence[Case]) -> Case:
    return next(case for case in cases if case.name == name)


def test_a_conversion_that_is_quadratic_is_found() -> None:
    """In Python, in C, and in memory."""

    def pairs(value: bytes) -> int:
        total = 0
        for one in value:
            for other in value:
                total += one < other
        return total

    quadratic: list[Run] = [
        pairs,
        lambda value: sum(value.count(b"a" * 9, i) for i in range(len(value))),
        lambda value: [value[i:] for i in range(len(value))],
    ]
    for run in quadratic:
        assert faults(Case("quadratic", lambda n: b"a" * n, run), 512, 2_048)
    linear: list[Run] = [sorted, list, lambda value: [*map(chr, value)]]
    for run in linear:
        assert faults(Case("linear", lambda n: b"a" * n, run), 512, 16_384) == []
    assert A_BYTE_TIME * (1 << 20) < 15  # seconds of the largest record: less than a third of a session timeout


def test_twin_a_duration_of_any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [*of_values("expressions")]
    digits = case("duration(t), text of 1", cases)
    assert faults(digits, 256, 4_096) == []
    monkeypatch.setattr(times, "LONGEST_TEXT", 1 << 30)
    assert faults(digits, 256, 4_096)


def test_messages_inside_of_one_another_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is a copy of all that is inside of it. The twin has no bound."""
    message, form = binary.field(1, b"a" * 50_000), binary.by_whole()
    for _ in range(9):
        message = binary.field(8, binary.in_any(message))
    with pytest.raises(Exception, match="holds an Any inside of 8 others"):
        form.decode(message)
    monkeypatch.setattr(protobuf_values, "MOST_INSIDE", 1 << 30)
    assert "any" in form.decode(message)


def test_a_message_has_no_more_values_than_memory_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = case("Protobuf, messages", [*binary.protobuf()])
    monkeypatch.setattr(protobuf_values, "MOST_VALUES", 4_000)
    few, many = messages.make(100), messages.make(10_000)
    with pytest.raises(Exception, match="holds more than 4,000 values"):
        binary.by_whole().decode(many)
    assert len(binary.by_whole().decode(few)["many"]) == 51


def twice(levels: int) -> dict[str, Any]:
    """A schema of so many levels, in which each type is there twice."""
    schema: Any = {"type": "record", "name": "T0", "fields": [{"name": "a", "type": "int"}]}
    for level in range(1, levels):
        other = {"name": "b", "type": f"T{level - 1}"}
        schema = {"type": "record", "name": f"T{level}", "fields": [{"name": "a", "type": schema}, other]}
    return dict(schema)


def test_a_schema_that_is_large_where_its_names_are_followed_is_refused() -> None:
    assert avro_sizes.size_of(twice(12), {}).bytes == 1 << 11
    with pytest.raises(ValueError, match="more than 20,000 types"):
        avro_sizes.size_of(twice(200), {})


def test_twin_a_schema_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro_sizes, "MOST_TYPES", 1 << 300)
    assert avro_sizes.size_of(twice(200), {}).bytes == 1 << 199


def test_every_shape_has_about_the_size_that_is_asked_for() -> None:
    wrong = [(name, n) for name, make in values() for n in (1_000, 16_000) if not n / 3 < len(make(n)) < 5 * n + 9_000]
    assert wrong == []
    assert json.loads(dict(values())["numbers of one hash"](1_000))[3] % ((1 << 61) - 1) == 0
