"""The native reader beside Python: each message gives the same bytes in both, or is declined."""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, NamedTuple

import msgspec
from hypothesis import strategies as st

from sluicegate.schemas import Avro, codec, native
from sluicegate.schemas.avro import parsed
from sluicegate.schemas.avro_plain import kind_of, resolved_kind

REFUSED, DECLINED, TAKEN = "refused by Python and declined", "declined", "taken"
ODD = (b"\x00", b"\x01", b"\x02", b"\x03", b"\xff", b"\x80\x00", b"\x80\x80\x80\x80\x10", b"\x80" * 10 + b"\x01")
ODD += (b"\xff\xff\xff\xff\x0f", b"\xc3", b"\x02\xc3", b"\x02\xff", b'\x02"', b"\x02\x1f", b"\x01\x02")
"""Pieces that are often no datum: indexes that do not exist, numbers of too many bits, text that is not UTF-8."""


class Both(NamedTuple):
    """A schema's readers. `plain` is None where every message would be declined."""

    python: Callable[[bytes], bytes]
    plain: native.PlainText | None

    def judge(self, value: bytes) -> str:
        """What became of the message. Raises AssertionError if the native reader gives other bytes than Python."""
        try:
            wanted = self.python(value)
        except msgspec.DecodeError:
            wanted = None
        document = None if self.plain is None else self.plain(value)
        assert document is None or document == wanted, f"{value!r}: native {document!r}, Python {wanted!r}"
        return TAKEN if document else REFUSED if wanted is None else DECLINED


@contextmanager
def switched(word: str) -> Iterator[None]:
    known = os.environ.get(native.SWITCH)
    os.environ[native.SWITCH] = word
    try:
        yield
    finally:
        del os.environ[native.SWITCH]
        os.environ |= {} if known is None else {native.SWITCH: known}


def both(schema: Any, names: frozenset[str] | None, **options: Any) -> Both:
    text = json.dumps(schema)
    with switched("off"):
        form = codec("avro", Avro(text, **options))
        python = form.text if names is None else form.only(names)  # type: ignore[misc]
    with switched("require"):
        framed = options.get("framing") == "confluent"
        kind = kind_of(parsed(text), names)
        if (written := options.get("writer_schema")) is not None:
            kind = resolved_kind(parsed(written), parsed(text), names)
        plain = native.kernel().plain_text(kind, framed, options.get("schema_id"))
    assert python is not None
    return Both(python, plain)


NEW = {"name": "new", "type": "int", "default": 3}


def drawn(data: st.DataObject, schema: Any) -> Both:
    """The readers of messages of the schema, with some of its fields, or with a reader's schema that has some of them
    and perhaps another one."""
    options: dict[str, Any] = {}
    if data.draw(st.booleans()):
        kept = [field for field in schema["fields"] if data.draw(st.booleans())]
        options["writer_schema"] = json.dumps(schema)
        schema = {**schema, "fields": kept + [NEW] * data.draw(st.booleans())}
    names = [field["name"] for field in schema["fields"]]
    some = st.frozensets(st.sampled_from(names)) if names else st.just(frozenset[str]())
    return both(schema, data.draw(st.none() | some), **options)


def mutated(written: bytes, random: Random) -> bytes:
    """One or two places of the message changed, cut out or filled with something odd."""
    for _ in range(random.randint(1, 2)):
        at = random.randint(0, len(written))
        end = min(len(written), at + random.choice((0, 0, 1, 1, 2, 8)))
        what = random.choice((b"", random.choice(ODD), random.randbytes(random.randint(1, 9))))
        written = written[:at] + what + written[end:]
    return written


def judged(readers: Both, written: bytes, random: Random, times: int) -> Counter[str]:
    """Of a message and of so many mutations of it."""
    counts = Counter([f"whole {readers.judge(written)}"])
    counts.update(readers.judge(mutated(written, random)) for _ in range(times))
    return counts
