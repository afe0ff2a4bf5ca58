"""A fast mutator of bytes: some two microseconds for each."""

from collections.abc import Sequence
from random import Random

# What parsers trip over: ends of ranges, lengths that promise much, text that is none, openings without an end.
EVIL = [
    b"\x00",
    b"\xff",
    b"\x80",
    b"\x7f",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\xff" * 8,
    b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\xdd\xff\xff\xff\xff",
    b"\xdf\xff\xff\xff\xff",
    b"\xc6\xff\xff\xff\xff",
    b"\xc9\xff\xff\xff\xff\x01",
    b"\xdb\x7f\xff\xff\xff",
    b"\xed\xa0\x80",
    b"\xc0\x80",
    b"\xf4\x90\x80\x80",
    b'"\\ud800"',
    b"\\u0000",
    b"[" * 70,
    b'{"a":' * 70,
    b"[" * 1100,
    b"]" * 70,
    b"}" * 70,
    b"1e999",
    b"-1e999",
    b"9" * 400,
    b"-0",
    b"NaN",
    b"Infinity",
    b"null",
    b"true",
    b'""',
    b"{}",
    b"[]",
    b'"',
    b"\\",
    b",",
    b":",
    b"\x00" * 64,
    b"1" + b"0" * 5000,
    b"\x91" * 600,
    b"\x81\xa1a" * 600,
    b"0.1e-400",
    b"18446744073709551616",
    b"-9223372036854775809",
]


class Mutator:
    """Hostile versions of the good ones of a corpus."""

    def __init__(self, random: Random, corpus: Sequence[bytes]) -> None:
        self._bits, self._bytes, self._corpus = random.getrandbits, random.randbytes, corpus

    def one(self) -> bytes:
        """One change, rarely up to four."""
        good = self._corpus[self._bits(16) % len(self._corpus)]
        bad = self.changed(good)
        while not self._bits(2):
            bad = self.changed(bad)
        return bad

    def changed(self, good: bytes) -> bytes:
        bits = self._bits
        kind, at = bits(4), bits(20) % (len(good) + 1)
        if kind < 5:  # a bit
            return good if at == len(good) else b"%b%c%b" % (good[:at], good[at] ^ (1 << bits(3)), good[at + 1 :])
        if kind < 8:  # a byte
            return b"%b%c%b" % (good[:at], bits(8), good[at + 1 :])
        if kind < 10:  # cut short, or without its begin
            return good[:at] if kind == 8 else good[at:]
        if kind < 12:  # something evil, in between or instead
            evil = EVIL[bits(12) % len(EVIL)]
            return good[:at] + evil + good[at + (len(evil) if kind == 11 else 0) :]
        end = at + bits(5)
        if kind == 12:  # a piece is missing
            return good[:at] + good[end:]
        if kind == 13:  # a piece comes twice
            return good[:end] + good[at:]
        if kind == 14:  # a piece of another one
            other = self._corpus[bits(16) % len(self._corpus)]
            return good[:at] + other[at:]
        return good[:at] + self._bytes(bits(4)) + good[at:]
