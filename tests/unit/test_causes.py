"""What an exception says in a dead letter and in a log, and where it was raised."""

import base64
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sluicegate.streams import causes
from sluicegate.streams.causes import LONGEST, Cause, cause

RECORD = {
    "name": "Bob",
    "iban": "DE89370400440532013000",
    "city": "Köln",
    "note": "line one\nÅse Møller",
    "amount": 4711.5,
    "age": 17,
}


def raised(error: Exception, *payload: object) -> Cause:
    try:
        raise error
    except type(error) as caught:
        return cause(caught, *payload)


def shown(message: str, payload: Any = RECORD) -> str:
    return raised(ValueError(message), b"key-7", json.dumps(payload).encode(), payload).shown


def test_text_and_place_of_the_innermost_frame_of_the_users_code() -> None:
    error = raised(ValueError("no such customer"))
    assert error.text == error.shown == "ValueError: no such customer"
    assert error.where == "tests/unit/test_causes.py:28 in raised"


def test_frames_of_libraries_and_of_ours_are_no_place() -> None:
    def of_the_user(value: bytes) -> Any:
        return json.loads(value)

    with pytest.raises(ValueError) as caught:
        of_the_user(b"{")
    assert cause(caught.value).where.endswith(
        " in test_frames_of_libraries_and_of_ours_are_no_place.<locals>.of_the_user"
    )


def test_code_of_ours_alone_has_no_place() -> None:
    from sluicegate.schemas import codec

    with pytest.raises(ValueError) as caught:
        codec("nothing")
    causes_frames = [frame for frame in causes.users(caught.value) if "test_causes" not in frame.file]
    assert causes_frames == []


def test_installed_code_is_the_users_where_nothing_else_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler in site-packages that calls a library there: the place is in the handler."""
    folder = tmp_path / "site-packages"
    (folder / "shopx").mkdir(parents=True)
    (folder / "shopx" / "__init__.py").write_text("import libx\n\ndef enter(value):\n    libx.fail()\n")
    (folder / "libx.py").write_text("def fail():\n    raise KeyError('x')\n")
    monkeypatch.syspath_prepend(str(folder))
    import shopx  # type: ignore[import-not-found]

    with pytest.raises(KeyError) as caught:
        shopx.enter(1)
    caught.value.__traceback__ = caught.value.__traceback__.tb_next  # type: ignore[union-attr]
    assert cause(caught.value).where == "shopx/__init__.py:4 in enter"
    for name in ("shopx", "libx"):
        sys.modules.pop(name)


def test_the_place_of_what_msgspec_says_of_a_users_type_is_in_that_type() -> None:
    class Order(msgspec.Struct):
        amount: int

        def __post_init__(self) -> None:
            raise ValueError("no order without a sum")

    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(b'{"amount": 1}', type=Order)
    caught.value.__traceback__ = None
    assert cause(caught.value).where.endswith("Order.__post_init__")


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("could not convert 'Bob'", "could not convert '<value>'"),
        ("'BOB' is unknown", "'<value>' is unknown"),
        ("Bobby is unknown", "<value> is unknown"),
        ("account DE89370400440532013000 is closed", "account <value> is closed"),
        ("account DE89-3704-0044 is closed", "account <value> is closed"),
        ("amount 4711.50 is too much", "amount <value> is too much"),
        ("sum 4712 is too much", "sum <value> is too much"),
        ("17 is too young", "<value> is too young"),
        ("status 404 from upstream", "status 404 from upstream"),
        ("key-7", "key-<value>"),
        ("in K\u00f6ln and in Ko\u0308ln", "in <value> and in <value>"),
        ("Åse", "<value>"),
        ("line one Møller", "<value> <value> <value>"),
        (repr("Møller".encode()), None),
        (ascii("Møller"), None),
        (base64.b64encode(b"Bob").decode(), None),
        (b"Bob".hex(), None),
        ("iban missing: currency", "iban missing: currency"),
        (
            'null value in column "amount" of relation "payments" violates not-null constraint',
            'null value in column "amount" of relation "payments" violates not-null constraint',
        ),
        ("Duplicate entry 'Bob' for key 'name'", "Duplicate entry '<value>' for key 'name'"),
    ],
)
def test_a_log_holds_no_piece_of_the_record(message: str, expected: str | None) -> None:
    text = shown(message)
    for piece in ("Bob", "BOB", "3704", "Köln", "Ko\u0308ln", "Møller", "ller", "Åse", "4711", "17", "Qm9i", "426f62"):
        assert piece not in text.removeprefix("ValueError: ")
    if expected is not None:
        assert text == f"ValueError: {expected}"


class Order(msgspec.Struct):
    currency: str
    lines: list[dict[str, str]]


@dataclass
class Line:
    currency: str


@pytest.mark.parametrize(
    "payload",
    [
        b'{"currency": "Bob", "lines": [{"note" : "for the table of Ann"}]}',
        b'{"currency": "Bob", "lines": [{"note": "for the table of Ann", "cut',
        {"currency": "Bob", "lines": [{"note": "for the table of Ann"}]},
        Order("Bob", [{"note": "for the table of Ann"}]),
        [Line("Bob"), Line("for the table of Ann")],
        {"Ann@example": {"Bob!": 1}},
    ],
)
def test_names_of_fields_and_words_of_databases_stay_and_values_do_not(payload: object) -> None:
    text = "insert into lines: no currency Bob for Ann"
    assert raised(KeyError(text), payload).shown == "KeyError: 'insert into lines: no currency <value> for <value>'"


def test_a_word_that_is_nowhere_in_the_record_stays() -> None:
    assert raised(KeyError("currency"), b'{"amount": 1}', {"amount": 1}).shown == "KeyError: 'currency'"


def test_what_is_cut_off_shows_no_beginning_of_a_value() -> None:
    for length in range(LONGEST - 20, LONGEST + 5):
        text = shown("x" * length + " Bob Bob Bob")
        assert "B" not in text.removeprefix("ValueError: ").replace("<value>", "")


def test_one_line_of_bounded_length_without_control_characters() -> None:
    error = raised(ValueError("a\nb\r\x1b[31mc\u2028d" + "e" * 10_000))
    assert error.text.startswith("ValueError: a b [31mc d")
    assert len(error.text) == len("ValueError: ") + LONGEST
    assert error.text.isprintable()


def test_what_cannot_be_said_or_looked_at_hurts_nobody() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    class Hidden:
        def __repr__(self) -> str:
            raise RuntimeError

    assert raised(Mute()).text == "Mute"
    assert raised(ValueError("secret"), Hidden()).shown == "ValueError: <value>"


def test_a_long_word_beside_a_large_record_is_masked() -> None:
    payload = {str(n): "word" * 5 for n in range(20_000)}
    assert shown("y" * 5_000, payload) == "ValueError: <value>..."


def test_the_twin_without_masking_shows_the_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causes, "_hidden", lambda *_: False)
    assert "Bob" in shown("could not convert 'Bob'")
