"""A kind of hostile record: where it goes, in which codecs, and how it is made."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import NamedTuple

from tests.hostile.agents import ATTACKED

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SIZE = 900_000
"""Bytes of a record of a large batch."""
ONE_EACH = dict.fromkeys(CODECS, 1)
Headers = Sequence[tuple[str, bytes | None]]


class Turn(NamedTuple):
    """What a record is made from. `app` is the name of the app, `seen` the headers of the last record that the attacker
    read of the internal topic."""

    random: Random
    codec: str
    app: str = ""
    seen: Headers = ()


class Sent(NamedTuple):
    value: bytes | None
    headers: Headers = ()


class Kind(NamedTuple):
    """`make` gives a record for `partition` of the topic `APP.AGENT.topic`. `batch`: by codec, the records that go in
    one batch. `once`: they are sent once, beside all others."""

    name: str
    agent: str
    make: Callable[[Turn], Sent]
    topic: str = "in"
    partition: int = ATTACKED
    batch: Mapping[str, int] = ONE_EACH
    once: bool = False


def always(sent: Sent) -> Callable[[Turn], Sent]:
    return lambda turn: sent
