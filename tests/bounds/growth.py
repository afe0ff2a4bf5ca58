"""Does a process grow? Its resident memory after each of many rounds of one load, and what that comes to."""

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple


class Growth(NamedTuple):
    """MiB at the begin and at the end of the rounds that count, and the records between them."""

    before: float
    after: float
    records: int

    @property
    def mib(self) -> float:
        return self.after - self.before

    @property
    def bytes_a_record(self) -> float:
        return self.mib * 1024 * 1024 / self.records


def grown(samples: Sequence[float], records: int) -> Growth:
    """Of samples (MiB), each after `records` more records: the first third is warm-up; of what follows the medians of
    the first and the last third are compared, since a sample may meet a request under way. Raises ValueError for fewer
    than nine."""
    if len(samples) < 9:
        raise ValueError("too few samples to tell")
    counted = samples[len(samples) // 3 :]
    third = len(counted) // 3
    return Growth(median(counted[:third]), median(counted[-third:]), (len(counted) - third) * records)
