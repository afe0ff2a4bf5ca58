"""The checker of transactions over lists: reads that no serial order explains, and appends that are gone.

Each element is appended to its list once, so a read shows in which order the appends before it came. From that follow
the dependencies of the transactions; a cycle of them is an anomaly.
"""

from collections.abc import Iterator, Sequence

from tests.histories.checker.anomaly import Anomaly
from tests.histories.checker.cycles import cyclic
from tests.histories.checker.dependencies import dependencies
from tests.histories.checker.history import Append, Read, Transaction
from tests.histories.checker.versions import Versions


def judged_appends(transactions: Sequence[Transaction]) -> list[Anomaly]:
    """None where the history is strictly serializable, as far as its reads tell."""
    versions = Versions(transactions)
    anomalies = list(versions.anomalies)
    for number, one in enumerate(transactions):
        if one.outcome == "ok":
            anomalies += _internal(one)
            for read in one.reads():
                anomalies += _of_a_read(versions, number, read)
    anomalies += _lost(versions)
    return anomalies + cyclic(dependencies(versions), list(transactions))


def _of_a_read(versions: Versions, number: int, read: Read) -> Iterator[Anomaly]:
    reader = versions.transactions[number]
    repeated = {element for element in read.elements if read.elements.count(element) > 1} if _repeats(read) else ()
    for element in repeated:
        yield Anomaly("duplicate-elements", f"{element} is in {read.key} more than once: {reader}")
    for element in read.elements:
        writer = versions.writers.get(Append(read.key, element))
        if writer is None:
            yield Anomaly("garbage-read", f"{element} was never appended to {read.key}: {reader}")
        elif versions.transactions[writer].outcome == "fail":
            yield Anomaly("G1a", f"{reader} read {element} of {read.key} of {versions.transactions[writer]}")
    if read.elements:
        last = read.elements[-1]
        writer = versions.writers.get(Append(read.key, last))
        if writer not in (None, number) and versions.last[writer, read.key] != last:
            yield Anomaly("G1b", f"{reader} read the intermediate {last} of {read.key}")


def _repeats(read: Read) -> bool:
    return len(set(read.elements)) < len(read.elements)


def _internal(transaction: Transaction) -> Iterator[Anomaly]:
    """A transaction reads what it read before and then appended, and not what it appends later."""
    whole: dict[str, tuple[int, ...]] = {}
    own: dict[str, tuple[int, ...]] = {}
    later = set(transaction.appends())
    for operation in transaction.operations:
        key = operation.key
        if isinstance(operation, Append):
            later.discard(operation)
            own[key] = (*own.get(key, ()), operation.element)
            if key in whole:
                whole[key] = (*whole[key], operation.element)
            continue
        elements = operation.elements
        if any(Append(key, element) in later for element in elements):
            yield Anomaly("future-read", f"it read {key} with what it appended later: {transaction}")
        mine = own.get(key, ())
        if whole.get(key, elements) != elements or (mine and elements[-len(mine) :] != mine):
            yield Anomaly("internal", f"its reads of {key} contradict each other or its appends: {transaction}")
        whole[key] = elements


def _lost(versions: Versions) -> Iterator[Anomaly]:
    """No read shows the append, and one that began after its end shows that it is not there."""
    latest: dict[str, float] = {}
    for one in versions.transactions:
        if one.outcome == "ok" and one.end > 0:
            for read in one.reads():
                latest[read.key] = max(latest.get(read.key, 0.0), one.begin)
    for key, numbers in versions.unobserved.items():
        for number in numbers:
            writer = versions.transactions[number]
            if 0 < writer.end < latest.get(key, 0.0):
                yield Anomaly("lost-append", f"no read of {key} shows what was appended by {writer}")
