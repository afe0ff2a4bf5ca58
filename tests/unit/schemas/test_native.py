"""Which code reads plain Avro records; Python reads all that the native reader declines. The real one: tests/native."""

import json
import sys
from types import ModuleType
from typing import Any

import msgspec
import pytest

from sluicegate.schemas import Avro, codec, native
from sluicegate.schemas.avro import parsed
from sluicegate.schemas.avro_plain import kind_of, resolved_kind
from tests.unit.schemas.avros import SHOP

ABSENT = "sluicegate-native is not installed"


class Given:
    """A reader that takes the messages of `taken`, and notes how it was made."""

    made: list[tuple[Any, bool, int | None]]
    taken: dict[bytes, bytes]

    def __init__(self, kind: Any, framed: bool, id: int | None) -> None:
        self.made.append((kind, framed, id))

    def text(self, value: bytes) -> bytes | None:
        return self.taken.get(value)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> type[Given]:
    """A module with our contract."""
    module: Any = ModuleType("sluicegate_native")
    module.CONTRACT, module.Reader = native.CONTRACT, type("Reader", (Given,), {"made": [], "taken": {}})
    monkeypatch.setitem(sys.modules, "sluicegate_native", module)
    monkeypatch.delenv(native.SWITCH, raising=False)
    return module.Reader  # type: ignore[no-any-return]


def chosen(monkeypatch: pytest.MonkeyPatch, word: str) -> str:
    monkeypatch.setenv(native.SWITCH, word)
    return native.kernel().name


def test_the_native_reader_is_used_where_it_is_unless_it_is_off(
    installed: type[Given], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [chosen(monkeypatch, word) for word in ("", "auto", "require")] == ["native 2"] * 3
    assert chosen(monkeypatch, "off") == "python (SLUICEGATE_NATIVE is off)"


@pytest.mark.parametrize(
    ("module", "why"), [(None, ABSENT), (ModuleType("sluicegate_native"), "sluicegate-native has contract None, not 2")]
)
def test_a_module_that_cannot_be_used_means_python_with_the_reason_or_no_start(
    monkeypatch: pytest.MonkeyPatch, module: Any, why: str
) -> None:
    monkeypatch.setitem(sys.modules, "sluicegate_native", module)
    assert chosen(monkeypatch, "auto") == f"python ({why})"
    with pytest.raises(ValueError, match=rf"^SLUICEGATE_NATIVE is require, but {why}; pip install"):
        chosen(monkeypatch, "require")


def test_another_contract_means_python(installed: type[Given], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["sluicegate_native"], "CONTRACT", 1)
    assert chosen(monkeypatch, "auto") == "python (sluicegate-native has contract 1, not 2)"
    assert native.kernel().plain_text(("null",), False, None) is None


def test_a_module_that_does_not_load_is_told_from_one_that_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> ModuleType:
        raise ImportError("made for another machine", name=name)

    monkeypatch.setattr(native.importlib, "import_module", broken)
    assert chosen(monkeypatch, "auto") == "python (sluicegate-native cannot be imported)"


def test_a_choice_that_there_is_not_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"^SLUICEGATE_NATIVE is 'yes'; write auto, off or require$"):
        chosen(monkeypatch, "yes")


def test_what_it_takes_is_used_and_what_it_declines_python_reads(installed: type[Given]) -> None:
    form = codec("avro", Avro(json.dumps(SHOP), framing="confluent", schema_id=7))
    plain = form.encode({"customer": "ann", "amount": 1.0})
    assert form.only is not None
    read = form.only({"amount"})
    assert read(plain) == b'{"amount":1.0}'
    assert installed.made[-1] == (kind_of(parsed(json.dumps(SHOP)), frozenset({"amount"})), True, 7)
    installed.taken[plain] = b'{"amount":2.0}'
    assert read(plain) == b'{"amount":2.0}'
    with pytest.raises(msgspec.DecodeError, match=r"^field at ends too early$"):
        read(plain[:-1])


def fields_of(schema: Any, **more: Any) -> Any:
    return {**SHOP, "fields": schema, **more}


@pytest.mark.parametrize(
    ("written", "read", "names"),
    [
        (SHOP["fields"], [*reversed(SHOP["fields"])], {"customer"}),
        (SHOP["fields"], [{**SHOP["fields"][0], "aliases": ["amount"]}], {"customer"}),
        (SHOP["fields"], [{**SHOP["fields"][0], "type": ["null", "string"]}], {"customer"}),
        (SHOP["fields"][:2], SHOP["fields"], {"note"}),
        (SHOP["fields"][1:], SHOP["fields"], {"amount"}),
        ([{"name": "v", "type": ["double", "int"]}], [{"name": "v", "type": ["double", "int"]}], {"v"}),
    ],
)
def test_a_resolution_that_changes_values_or_may_fail_is_left_to_python(
    installed: type[Given], written: Any, read: Any, names: set[str]
) -> None:
    writer, reader = parsed(json.dumps(fields_of(written))), parsed(json.dumps(fields_of(read)))
    assert resolved_kind(writer, reader, frozenset(names)) is None
    assert resolved_kind(writer, {**reader, "name": "shop.Other"}, frozenset()) is None
    assert installed.made == []


def test_fields_that_only_one_of_two_schemas_has_are_skipped_or_not_wanted(installed: type[Given]) -> None:
    older = fields_of([SHOP["fields"][0], {"name": "gone", "type": "int"}, SHOP["fields"][1]])
    form = codec("avro", Avro(json.dumps(SHOP), writer_schema=json.dumps(older)))
    assert installed.made == []  # all fields: some have only their default
    assert form.only is not None
    form.only({"amount"})
    [(kind, _, _)] = installed.made
    assert kind == ("record", ((None, ("string",)), (None, ("int",)), (b'"amount":', ("double",))))
    form.only({"amount", "note"})
    assert len(installed.made) == 1


def test_the_reader_is_told_what_to_write_and_what_to_check() -> None:
    fields = [
        {"name": "ünit", "type": {"type": "enum", "name": "U", "symbols": ["A"]}},
        {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 4}]},
        {"name": "opens", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "units", "type": {"type": "array", "items": "U"}},
    ]
    schema = parsed(json.dumps({"type": "record", "name": "R", "fields": fields}))
    unit = ("enum", (b'"A"',))
    assert kind_of(schema, frozenset({"ünit"})) == (
        "record",
        (
            ('"ünit":'.encode(), unit),
            (None, ("union", (("null",), ("decimal",)))),
            (None, ("clock", 32, 1_000)),
            (None, ("long",)),
            (None, ("array", unit)),
        ),
    )
    wanted = kind_of(schema, frozenset({"at", "opens"}))
    assert wanted is not None
    assert wanted[1][2:4] == ((b'"opens":', ("clock", 32, 1_000)), (b'"at":', ("moment", 1_000, True)))


@pytest.mark.parametrize(
    "kind",
    [
        "bytes",
        {"type": "fixed", "name": "F", "size": 2},
        {"type": "string", "contentMediaType": "application/json"},
        {"type": "long", "logicalType": "timestamp-nanos"},
        {"type": "fixed", "name": "F", "size": 2, "logicalType": "decimal", "precision": 2},
        {"type": "record", "name": "I", "fields": [{"name": "w", "type": "bytes"}]},
    ],
)
def test_a_schema_whose_records_would_all_be_declined_is_left_to_python(kind: Any) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "v", "type": kind}, {"name": "w", "type": "int"}]}
    text = json.dumps(schema)
    assert kind_of(parsed(text), frozenset({"v"})) is None
    assert kind_of(parsed(text), frozenset({"w"})) is not None
