"""A shadow: the input under a rule, with its state in memory, compared with what was published. Pure.

`folded` is the door. `rule` is judged against results that were published under `live`: the same rule for an audit,
another one to see what a change would do. It claims nothing, writes nothing and joins no group. The caller reads the
topics and the store (streams/operations/shadowing.py).

It imports aggregation, contracts, outbox and reading.
"""

from collections.abc import Iterable, Sequence

from sluicegate.streams import formats
from sluicegate.streams.agent import Agent
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.shadow.fold import ShadowFold
from sluicegate.streams.shadow.verdicts import Shadowed
from sluicegate.streams.shadow.witness import Codecs, Witness

MESSAGE_BYTES = 1_000_000  # librdkafka's default of message.max.bytes


def folded(
    rule: Agent,
    live: Agent,
    witness: Witness,
    records: Iterable[Sequence[Record]],
    only: bytes | None = None,
    most: int = MESSAGE_BYTES,
    before: Iterable[Sequence[Record]] = (),
) -> Shadowed:
    """The verdicts on one partition. `records` are those of `witness.begin` to `witness.end`, `before` the ones just
    before them, for the repeats of Sluicegate's own senders. `only` is the one key to judge; a message has at most
    `most` bytes. Raises ConfigurationError for a rule that would halt in the range, or whose verdicts are not known."""
    codecs = Codecs(formats.reads(rule), formats.writes(rule), most)
    fold = ShadowFold(rule, live, codecs, witness, only)
    for batch in before:
        fold.run_up(batch)
    for batch in records:
        fold.take(batch)
    return fold.finish()
