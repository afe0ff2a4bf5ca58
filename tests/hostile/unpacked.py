"""Batches that are small on the wire and large when they are unpacked."""

from collections.abc import Callable

from tests.hostile.agents import REFUSING, UNPACKED
from tests.hostile.kinds import SIZE, Kind, Sent, Turn

BATCHES = {"none": 1, "gzip": 333, "snappy": 20, "lz4": 270, "zstd": 50}
"""Records of SIZE in a batch, at most: what a megabyte holds, and no more than 300 MB. The client refuses to unpack
100 MB of zstd, and may refuse 50 MB."""
UNDECODABLE = Sent(b"x" * SIZE)


def undecodable(turn: Turn) -> Sent:
    return UNDECODABLE


def one(size: int) -> Callable[[Turn], Sent]:
    return lambda turn: Sent(b'{"id":1,"x":"' + b"x" * size + b'"}')


def kinds(largest: int) -> list[Kind]:
    """`largest` is the size in bytes of the record that ends a process. Batches have a third of it at most."""
    batches = {codec: min(most, largest // 3 // SIZE) for codec, most in BATCHES.items()}
    return [
        Kind("large batches", "batches", undecodable, batch=batches),
        Kind("a record larger than the memory", UNPACKED, one(largest), batch={"gzip": 1}, once=True),
        Kind("a record that the client refuses", UNPACKED, one(300_000_000), "in", REFUSING, {"zstd": 1}, once=True),
    ]
