"""A shadow processes the input under a rule, with its state in memory, and compares the outputs with the published
ones. Pure.

`folded` and `corrected` are the entry points. `rule` is judged against results that were published under `live`: the
same rule for an audit, another rule to see the effect of a change. A shadow claims nothing, writes nothing and joins no
group. The caller reads the topics and the store (streams/operations/replaying/shadowing.py), and writes the corrections
(streams/operations/replaying/rewinding.py). It imports aggregation, contracts, outbox and reading.
"""

from collections.abc import Iterable, Iterator, Sequence

from sluicegate.streams import formats
from sluicegate.streams.agent import Agent
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.values import OutboxRow
from sluicegate.streams.outbox.sizes import MESSAGE_BYTES
from sluicegate.streams.shadow.corrections import Corrections
from sluicegate.streams.shadow.fold import ShadowFold
from sluicegate.streams.shadow.judge import GroupHandler, ShadowJudge
from sluicegate.streams.shadow.verdicts import Shadowed
from sluicegate.streams.shadow.witness import Codecs, Witness


def folded(
    rule: Agent,
    live: Agent,
    witness: Witness,
    records: Iterable[Sequence[Record]],
    only: bytes | None = None,
    most: int = MESSAGE_BYTES,
    before: Iterable[Sequence[Record]] = (),
    handle: GroupHandler | None = None,
) -> Shadowed:
    """The verdicts on one partition. `records` are the records from `witness.begin` to `witness.end`. `before` are the
    records just before them, to recognize repeats of Sluicegate's own senders. `only` is the one key to judge. A
    message has at most `most` bytes. `handle` calls the rule's handler. Raises ConfigurationError for a rule that would
    halt in the range, or whose verdicts are unknown, and the errors of `handle`."""
    codecs = Codecs(formats.reads(rule), formats.writes(rule), most)
    fold = ShadowFold(rule, live, codecs, witness, ShadowJudge(rule, codecs, witness, only, handle))
    for batch in before:
        fold.run_up(batch)
    for batch in records:
        fold.take(batch)
    return fold.finish()


def corrected(
    rule: Agent,
    live: Agent,
    witness: Witness,
    records: Iterable[Sequence[Record]],
    corrections: Corrections,
    before: Iterable[Sequence[Record]] = (),
) -> Iterator[tuple[int, Sequence[OutboxRow]]]:
    """The corrections of one partition: after each of `records` its last offset and the outputs that it led to, at the
    end the offset `witness.end` and the rest. The same arguments give the same outputs, up to the number and the shard
    of a row. Raises as `folded`."""
    codecs = Codecs(formats.reads(rule), formats.writes(rule), MESSAGE_BYTES)
    fold = ShadowFold(rule, live, codecs, witness, corrections, whole=True)
    for batch in before:
        fold.run_up(batch)
    for batch in records:
        fold.take(batch)
        yield batch[-1].offset(), corrections.take_outputs()
    fold.finish()
    yield witness.end, corrections.take_outputs()
