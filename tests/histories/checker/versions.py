"""The versions of each list: from the longest read of a key follows in which order its elements were appended."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from tests.histories.checker.anomaly import Anomaly
from tests.histories.checker.history import Append, Read, Transaction


class Versions:
    """Transactions are named by their numbers in the history. `writers` says which transaction appended an element,
    `order` is the order of a key's elements, `unobserved` are the transactions whose appends to a key no read shows."""

    def __init__(self, transactions: Sequence[Transaction]) -> None:
        self.transactions = transactions
        self.writers: dict[Append, int] = {}
        self.last: dict[tuple[int, str], int] = {}
        self.anomalies: list[Anomaly] = []
        for number, one in enumerate(transactions):
            for append in one.appends():
                self._appended(number, append)
        self.order: dict[str, tuple[int, ...]] = {}
        for read in sorted(self._reads(), key=lambda read: len(read.elements)):
            self._ordered(read)
        self.unobserved: dict[str, list[int]] = defaultdict(list)
        observed = {Append(key, element) for key, order in self.order.items() for element in order}
        for append, number in self.writers.items():
            if append not in observed and transactions[number].outcome == "ok":
                self.unobserved[append.key].append(number)

    def _reads(self) -> Iterator[Read]:
        return (read for one in self.transactions if one.outcome == "ok" for read in one.reads())

    def _appended(self, number: int, append: Append) -> None:
        if append in self.writers:
            why = f"{append.element} was appended to {append.key} by two transactions: the history cannot be judged"
            self.anomalies.append(Anomaly("duplicate-appends", why))
        self.writers[append] = number
        self.last[number, append.key] = append.element

    def _ordered(self, read: Read) -> None:
        """Reads come by their lengths: each must begin with the one before."""
        before = self.order.get(read.key, ())
        if read.elements[: len(before)] != before:
            why = f"two reads of {read.key} disagree: {list(before)} and {list(read.elements)}"
            self.anomalies.append(Anomaly("incompatible-order", why))
        self.order[read.key] = read.elements
