"""Which transaction depends on which: through the versions of lists, through their processes, and in real time."""

import itertools
from collections.abc import Sequence

from tests.histories.checker.graph import Graph, Kind
from tests.histories.checker.history import Append, Read, Transaction
from tests.histories.checker.versions import Versions


def dependencies(versions: Versions) -> Graph:
    """A failed transaction has none. One whose end is unknown has them for those of its appends that were read."""
    graph = Graph()
    for key, order in versions.order.items():
        writers = [versions.writers.get(Append(key, element)) for element in order]
        for before, after in itertools.pairwise(writers):
            if before is not None and after is not None:
                graph.add(before, Kind.WW, after)
        if writers and writers[-1] is not None:
            for after in versions.unobserved.get(key, ()):
                graph.add(writers[-1], Kind.WW, after)
    for number, one in enumerate(versions.transactions):
        if one.outcome == "ok":
            for read in external_reads(one):
                _of_a_read(graph, versions, number, read)
    _of_processes(graph, versions.transactions)
    _of_real_time(graph, versions.transactions)
    return graph


def external_reads(transaction: Transaction) -> list[Read]:
    """The first read of each key before the transaction appends to it: these show what others did."""
    reads: dict[str, Read] = {}
    appended: set[str] = set()
    for operation in transaction.operations:
        if isinstance(operation, Append):
            appended.add(operation.key)
        elif operation.key not in appended:
            reads.setdefault(operation.key, operation)
    return list(reads.values())


def _of_a_read(graph: Graph, versions: Versions, reader: int, read: Read) -> None:
    order, length = versions.order.get(read.key, ()), len(read.elements)
    if read.elements:
        writer = versions.writers.get(Append(read.key, read.elements[-1]))
        if writer is not None:
            graph.add(writer, Kind.WR, reader)
    if length < len(order):
        overwriter = versions.writers.get(Append(read.key, order[length]))
        if overwriter is not None:
            graph.add(reader, Kind.RW, overwriter)
        return
    for after in versions.unobserved.get(read.key, ()):
        graph.add(reader, Kind.RW, after)


def _of_processes(graph: Graph, transactions: Sequence[Transaction]) -> None:
    last: dict[str, int] = {}
    for number, one in enumerate(transactions):
        if one.outcome == "ok" and one.process:
            if one.process in last:
                graph.add(last[one.process], Kind.PROCESS, number)
            last[one.process] = number


def _of_real_time(graph: Graph, transactions: Sequence[Transaction]) -> None:
    """One ended before the other began. Each end is a moment, a node with a negative number: a transaction comes before
    the moment of its end, moments follow each other, and the last one before its begin comes before a transaction."""
    known = [number for number, one in enumerate(transactions) if one.outcome == "ok" and one.end > 0]
    ends = [(transactions[number].end, 1, number) for number in known]
    begins = [(transactions[number].begin, 0, number) for number in known]
    moment = 0
    for _, is_end, number in sorted(begins + ends):
        if not is_end:
            if moment:
                graph.add(moment, Kind.REALTIME, number)
            continue
        if moment:
            graph.add(moment, Kind.REALTIME, moment - 1)
        moment -= 1
        graph.add(number, Kind.REALTIME, moment)
