"""Headers of an agent that another program writes: on an input, and on the internal topic of `repartition`, which the
attacker may read and write."""

import time
from random import Random

from tests.hostile.agents import FORGED, PARTITIONS
from tests.hostile.kinds import CODECS, Headers, Kind, Sent, Turn

RECORD = b'{"id":"forged"}'
SHARDS = 200
"""New shards of one batch."""
AHEAD = (60.0, 3_000.0, 1e12)
"""Seconds: within `max_ahead`, and beyond it."""


def of_nobody(turn: Turn) -> Sent:
    """Numbers and names of nobody."""
    number = b"%d" % turn.random.choice([0, 10**17, 10**30])
    shard = b"app/sums/in/%d@1>in#0" % turn.random.randrange(1 << 30)
    more = [
        ("sluicegate-origin", turn.random.randbytes(20)),
        ("sluicegate-time", b"9" * 300),
        ("traceparent", b"x" * 9_000),
    ]
    return Sent(b'{"id":1}', [("sluicegate-shard", shard), ("sluicegate-seq", number), *more])


def place(app: str, random: Random, time_ahead: float) -> Headers:
    """A re-keyed record of an input partition, at a time after now."""
    at = round(1000 * (time.time() + time_ahead))
    return [
        ("sluicegate-agent", f"{FORGED}.repartition".encode()),
        ("sluicegate-origin", b"%s.%s.in/%d/%d" % (app.encode(), FORGED.encode(), random.randrange(PARTITIONS), 10**9)),
        ("sluicegate-time", b"%d" % at),
    ]


def mark(turn: Turn) -> Sent:
    """An input partition says that it is far ahead, or that it is idle."""
    state = turn.random.choice([b"at-end", b"idle", b"behind"])
    words = ("sluicegate-state", b"%s/%d" % (state, round(1000 * time.time())))
    return Sent(None, [*place(turn.app, turn.random, turn.random.choice(AHEAD)), words])


def stamped(turn: Turn) -> Sent:
    """A record whose time closes the windows of all others."""
    return Sent(RECORD, place(turn.app, turn.random, turn.random.choice(AHEAD)))


def of_row(shard: bytes, number: int) -> Headers:
    return [("sluicegate-shard", shard), ("sluicegate-seq", b"%d" % number)]


def of_a_shard(turn: Turn) -> Sent:
    """A number of a genuine shard that is still to come, or one beyond all others."""
    seen = dict(turn.seen)
    shard, last = seen.get("sluicegate-shard"), seen.get("sluicegate-seq")
    if shard is None or last is None:
        return a_shard(turn)
    number = turn.random.choice([10**17, *(int(last) + turn.random.randrange(1, 2_000) for _ in range(9))])
    return Sent(RECORD, of_row(shard, number))


def a_shard(turn: Turn) -> Sent:
    """A shard of our app that is none."""
    shard = f"{turn.app}/{FORGED}.repartition/{turn.app}.{FORGED}.in/0>{turn.app}.{FORGED}.by#"
    return Sent(RECORD, of_row(shard.encode() + turn.random.randbytes(16).hex().encode(), 10**17))


def kinds() -> list[Kind]:
    return [
        Kind("forged headers", "groups", of_nobody),
        Kind("forged time marks", FORGED, mark, "by"),
        Kind("forged times", FORGED, stamped, "by"),
        Kind("numbers of a shard", FORGED, of_a_shard, "by", batch=dict.fromkeys(CODECS, 20)),
        Kind("many shards", FORGED, a_shard, "by", batch=dict.fromkeys(CODECS, SHARDS)),
    ]
