"""The typed decoder reads exactly the wanted fields."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.schemas import codec
from sluicegate.schemas.json import (
    Field,
    FieldKind,
    bounded,
    canonical,
    decode_any,
    document,
    is_number,
    walk,
    wanted,
    well_formed,
)

PATHS = ("a", "b", "a2.x", "a2.y", "c.d.e")
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
)
trees = st.recursive(
    leaves, lambda inner: st.dictionaries(st.sampled_from(["a", "b", "a2", "x", "y", "c", "d", "e"]), inner, max_size=5)
)


@settings(derandomize=True, deadline=None)
@given(trees, st.sets(st.sampled_from(PATHS), min_size=1), st.booleans())
def test_any_document_gives_what_walking_it_gives(document: Any, paths: set[str], required: bool) -> None:
    fields = [Field(path, required=required) for path in sorted(paths)]
    want = wanted(fields)
    expected = [walk(document, field.path) for field in fields]
    try:
        read = want.decode(json.dumps(document).encode())
    except msgspec.ValidationError:
        assert not isinstance(document, dict) or (required and None in expected)
    else:
        assert [get(read) for get in want.getters] == expected


@pytest.mark.parametrize(
    "value", [b'{"n":true}', b'{"n":"1"}', b'{"n":null}', b"{}", b'{"n":1e999}', b'{"n":[1]}', b"[1]"]
)
def test_a_number_is_a_finite_json_number_and_nothing_else(value: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        wanted([Field("n", "number")]).decode(value)


@pytest.mark.parametrize("value", [b'{"n":"x","n":5}', b'{"n":null,"n":5}', b'{"n":4,"n":5}'])
def test_of_several_fields_of_one_name_the_last_one_counts(value: bytes) -> None:
    want = wanted([Field("n", "number")])
    assert want.getters[0](want.of_last(value)) == 5
    with pytest.raises(msgspec.ValidationError):
        want.of_last(value[:-1] + b',"n":"x"}')


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        ("text", b'"1"', (b"1", b"true", b"null", b"[]", b"{}")),
        ("boolean", b"true", (b"1", b'"true"', b"null", b"[]")),
        ("any", b"{}", (b"null",)),
    ],
)
def test_a_required_field_has_the_wanted_kind(kind: FieldKind, right: bytes, wrong: tuple[bytes, ...]) -> None:
    decode = wanted([Field("a.b", kind)]).decode
    decode(b'{"a":{"b":' + right + b"}}")
    for value in wrong:
        with pytest.raises(msgspec.ValidationError):
            decode(b'{"a":{"b":' + value + b"}}")


def test_a_field_inside_an_object_is_a_chain_of_attributes() -> None:
    want = wanted([Field("a"), Field("b.c"), Field("d.e", required=False)])
    assert want.attributes == ("f0", None, None)
    assert want.chains == ("f0", "f1.f0", None)


@pytest.mark.parametrize(("paths"), [("a", "a.b"), ("a.b", "a"), ("a", "a")])
def test_a_path_inside_another_one_is_refused(paths: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="wanted"):
        wanted([Field(path) for path in paths])


def test_names_on_the_wire_need_not_be_names_of_python() -> None:
    want = wanted([Field("with space"), Field("class"), Field("f0")])
    assert [get(want.decode(b'{"f0":3,"class":2,"with space":1}')) for get in want.getters] == [1, 2, 3]


def test_canonical_json_has_one_form() -> None:
    assert canonical({"b": 1, "a": [1.5, "ü"]}) == '{"a":[1.5,"ü"],"b":1}'.encode()


def test_a_boolean_is_no_number() -> None:
    assert [is_number(v) for v in (1, 1.5, True, "1", None)] == [True, True, False, False, False]


@pytest.mark.parametrize("name", ["yaml", "no.such.module:codec", "json:nothing", "json:loads"])
def test_a_format_that_is_none_is_refused_with_what_to_do(name: str) -> None:
    with pytest.raises(ValueError, match="format"):
        codec(name)


@pytest.mark.parametrize(
    ("value", "good"),
    [
        (b"[" * 64 + b"]" * 64, True),
        (b"[" * 65 + b"]" * 65, False),
        (b'{"a":' * 64 + b"1" + b"}" * 64, True),
        (b'{"a":' * 65 + b"1" + b"}" * 65, False),
        (b'{"a":[' * 33 + b"]}" * 33, False),
        (b'["' + b"[" * 100 + b'",' + b"[]," * 100 + b"1]", True),
        (b"[" * 100_000 + b"]" * 100_000, False),
    ],
)
def test_a_document_of_up_to_64_levels_is_read(value: bytes, good: bool) -> None:
    for decode in (document, codec("json").decode, bounded(well_formed)):
        if good:
            assert decode(value) is not None
        else:
            with pytest.raises((msgspec.DecodeError, RecursionError)):
                decode(value)


nested = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner))


def outcome(decode: Callable[[bytes], Any], value: bytes) -> str:
    try:
        return repr(decode(value))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return repr(error)


@settings(derandomize=True, deadline=None, max_examples=400)
@given(
    nested, st.integers(0, 12), st.integers(0, 60), st.sampled_from([b"", b"\xff", b"}", b'"', b"1e400", b"[{", b"\\u"])
)
def test_a_document_is_what_decoding_anything_gives(value: Any, levels: int, at: int, odd: bytes) -> None:
    """Also where few levels are read in one pass, and where some bytes are wrong."""
    text = b"[" * levels + json.dumps(value).encode() + b"]" * levels
    text = text[:at] + odd + text[at:]
    assert outcome(document, text) == outcome(bounded(decode_any), text)
