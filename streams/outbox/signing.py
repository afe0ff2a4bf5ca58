"""Signs rows on their way to the producer, so receivers can verify their writer. The store has unsigned rows: a row
that an earlier release wrote is signed when it is sent."""

from collections.abc import Callable, Sequence
from itertools import islice

from sluicegate.streams.contracts.mac import Mac
from sluicegate.streams.contracts.stores import BatchReports, Cursor, Output, OutputTransactions
from sluicegate.streams.contracts.values import OutboxRow, Partition

TOGETHER = 500  # rows that are signed before they are passed to the producer


class SignedOutput:
    """`output` with signed rows. Satisfies sluicegate.streams.contracts.stores.Output."""

    def __init__(self, output: Output, mac: Mac) -> None:
        self._output, self._signed = output, mac.signed
        self.poll, self.replace, self.send_now = output.poll, output.replace, output.send_now

    def produce_all(self, rows: Sequence[OutboxRow], reports: BatchReports) -> int:
        taken, remaining = 0, iter(rows)
        while signed := self._signed(islice(remaining, TOGETHER)):
            taken += (count := self._output.produce_all(signed, reports))
            if count < len(signed):
                break
        return taken


class SignedTransactions:
    """`output` with signed rows. Satisfies sluicegate.streams.contracts.stores.OutputTransactions."""

    def __init__(self, output: OutputTransactions, mac: Mac) -> None:
        self._output, self._signed = output, mac.signed
        self.open, self.close = output.open, output.close

    def send(self, rows: Sequence[OutboxRow], cursor: Cursor) -> str:
        return self._output.send(self._signed(rows), cursor)


def signing(
    transactions: Callable[[Partition], OutputTransactions], mac: Mac | None
) -> Callable[[Partition], OutputTransactions]:
    """`transactions` with signed rows; without keys it is returned unchanged."""
    if mac is None:
        return transactions
    return lambda partition: SignedTransactions(transactions(partition), mac)
