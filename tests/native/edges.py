"""Data at the edge of each type, and the places where a datum of it may be."""

from collections.abc import Iterator
from struct import pack
from typing import Any

MILLIS = 62_135_596_800_000  # from the year 1 to 1970
LATEST = 253_402_300_799_999
FLOATS = (0.0, -0.0, 1.0, 0.1, 1e15, 1e16, 123456789012345678.0, 1e-5, 1e-6, 5e-324, 1.7976931348623157e308)
NO_NUMBERS = (float("inf"), float("-inf"), float("nan"))


def number(value: int) -> bytes:
    """Zigzag, of any size."""
    rest, made = (value << 1) if value >= 0 else (-value << 1) - 1, b""
    while rest > 0x7F:
        rest, made = rest >> 7, made + bytes([rest & 0x7F | 0x80])
    return made + bytes([rest])


def sized(value: bytes) -> bytes:
    return number(len(value)) + value


def numbers(*values: int) -> list[bytes]:
    return [number(value) for value in values]


INTS = (0, 1, -1, 63, -64, 64, 2**31 - 1, -(2**31), 2**31, -(2**31) - 1, 2**32, -(2**32))
LONGS = (*INTS, 2**63 - 1, -(2**63), 2**63, 2**64)
PADDED = [
    b"\x80\x00",
    b"\x82\x80\x80\x80\x00",
    b"\x82\x80\x80\x80\x80\x00",
    b"\xff" * 9 + b"\x01",
    b"\xff" * 9 + b"\x03",
]
TEXTS = ("", "ann", '"', "\\", "\x1f", "\x7f", "é👍\u2028", "".join(map(chr, range(0x20))), '"\\/\x7f', "x" * 300)
NO_TEXTS = (b"\xff", b"a\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80")
UUIDS = (
    "6f3bd0a2-7a5c-4f0e-9d2e-0a1b2c3d4e5f",
    "6F3BD0A2-7A5C-4F0E-9D2E-0A1B2C3D4E5F",
    "{6f3bd0a27a5c4f0e9d2e0a1b2c3d4e5f}",
)
UUIDS += ("", "6f3bd0a2-7a5c-4f0e-9d2e-0a1b2c3d4e5g", "6f3bd0a2x7a5c-4f0e-9d2e-0a1b2c3d4e5f")
DAYS = (0, 1, -1, 59, 60, 11_016, 11_017, -719_162, -719_163, 2_932_896, 2_932_897, 2**31 - 1, 2**31)
TIMES = (0, 1, 86_399_999, 86_400_000, -1, 2**31)
MOMENTS = (0, -1, 1, 999, 1_234, -62_000, -MILLIS, -MILLIS - 1, LATEST, LATEST + 1, 2**62, -(2**63), 2**63 - 1)


def logical(kind: str, logical_type: str, /, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical_type, **more}


def _micros(values: tuple[int, ...]) -> list[bytes]:
    near = [value * 1_000 + change for value in values for change in (-1, 0, 1, 999)]
    return numbers(*near)


DATA: list[tuple[Any, list[bytes]]] = [
    ("null", [b""]),
    ("boolean", [b"\x00", b"\x01", b"\x02", b"\xff"]),
    ("int", [*numbers(*INTS), *PADDED]),
    ("long", [*numbers(*LONGS), *PADDED]),
    ("float", [pack("<f", min(value, 1e38)) for value in FLOATS] + [pack("<f", value) for value in NO_NUMBERS]),
    ("double", [pack("<d", value) for value in (*FLOATS, *NO_NUMBERS)]),
    (
        "string",
        [sized(text.encode()) for text in TEXTS] + [sized(value) for value in NO_TEXTS] + [b"\x01a", b"\x80\x00"],
    ),
    ("bytes", [sized(b""), sized(b"\xff\x00")]),
    ({"type": "string", "contentMediaType": "application/json"}, [sized(b"[1]"), sized(b"{}"), sized(b"")]),
    ({"type": "fixed", "name": "F", "size": 2}, [b"ab", b"\xff\xff"]),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, [*numbers(0, 1, 2, -1, 2**32), *PADDED]),
    (logical("int", "date"), numbers(*DAYS)),
    (logical("int", "time-millis"), [*numbers(*TIMES), *PADDED]),
    (logical("long", "time-micros"), _micros(TIMES)),
    (logical("long", "timestamp-millis"), numbers(*MOMENTS)),
    (logical("long", "timestamp-micros"), _micros(MOMENTS)),
    (logical("long", "local-timestamp-millis"), numbers(*MOMENTS)),
    (logical("long", "local-timestamp-micros"), _micros(MOMENTS)),
    (logical("long", "timestamp-nanos"), numbers(*LONGS)),
    (logical("int", "somewhat"), numbers(*INTS)),
    (logical("string", "uuid"), [sized(text.encode()) for text in UUIDS] + [sized(b"\xff")]),
    (
        logical("bytes", "decimal", precision=4, scale=2),
        [sized(b"\x01\x00"), sized(b""), b"\x80\x00", sized(b"\x7f" * 9)],
    ),
    (logical("fixed", "decimal", precision=2, scale=1, name="D", size=2), [b"\x00\x01", b"\x7f\xff"]),
    (
        {"type": "map", "values": "int"},
        [b"\x04\x02a\x02\x02b\x04\x00", b"\x04\x02a\x02\x02a\x04\x00", b"\x02\x02\xff\x02\x00"],
    ),
    (
        {"type": "array", "items": "int"},
        [b"\x00", b"\x04\x02\x04\x00", b"\x03\x04\x02\x04\x00", b"\x03\x7f\x02\x04\x00", b"\x03\x7e\x02\x04\x00"],
    ),
    ({"type": "array", "items": "int"}, [b"\x03\x01\x02\x04\x00", number(-(2**63)) + b"\x00\x00", number(2**62)]),
    (["null", "int", "string"], [b"\x00", b"\x02\x02", b"\x04\x02a", b"\x01\x02", b"\x06", *PADDED]),
]
"""Types, each with bytes that are a datum of it and others that are not."""

BESIDE = {"name": "beside", "type": "string"}
PLACES = ("wanted", "beside", "optional", "union", "items", "block", "values", "inner", "again", "alone")


def placed(place: str, kind: Any, datum: bytes) -> tuple[Any, frozenset[str] | None, bytes]:
    """A schema with the type at this place, what is wanted of it, and a message with the datum."""
    names: frozenset[str] | None = None
    settings: dict[str, tuple[Any, bytes]] = {
        "optional": (["null", kind], b"\x02" + datum),
        "union": (["null", {"type": "record", "name": "O", "fields": []}, kind], b"\x04" + datum),
        "items": ({"type": "array", "items": kind}, b"\x02" + datum + b"\x00"),
        "block": ({"type": "array", "items": kind}, b"\x01" + number(len(datum)) + datum + b"\x00"),
        "values": ({"type": "map", "values": kind}, b"\x02\x02k" + datum + b"\x00"),
        "inner": ({"type": "record", "name": "I", "fields": [{"name": "w", "type": kind}]}, datum),
    }
    if place == "alone":
        return kind, None, datum
    if place == "beside":
        names = frozenset({"beside"})
    elif place == "wanted":
        names = frozenset({"v"})
    inner, value = settings.get(place, (kind, datum))
    fields = [{"name": "v", "type": inner}, BESIDE]
    if place == "again":
        again = kind["name"] if isinstance(kind, dict) and "name" in kind else kind
        fields, value = [*fields, {"name": "x", "type": again}], datum + b"\x02b" + datum
        return {"type": "record", "name": "R", "fields": fields}, None, value
    return {"type": "record", "name": "R", "fields": fields}, names, value + b"\x02b"


def edges() -> Iterator[tuple[Any, frozenset[str] | None, bytes]]:
    for kind, data in DATA:
        for place in PLACES:
            if (isinstance(kind, list) and place in ("optional", "union")) or (kind == "null" and place != "wanted"):
                continue
            for datum in data:
                schema, names, value = placed(place, kind, datum)
                yield schema, names, value
                if place in ("optional", "items", "inner"):  # without being wanted
                    yield schema, frozenset({"beside"}), value
