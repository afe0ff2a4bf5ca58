"""The last hour of each agent in the memory of the supervisor, for the plots of the console.

A sample is taken every EVERY seconds, and the newest SAMPLES are kept, with one number for each of at most SERIES
reasons: at most 2 MB per agent. The newest ERRORS errors are kept, each with at most LONGEST characters. Nothing is
stored, so a new run starts empty.
"""

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from sluicegate.streams.observe.metrics import BY_NAME
from sluicegate.streams.observe.report import PartitionReport, WorkerReport

EVERY = 5.0  # seconds
HOUR = 3600
SAMPLES = int(HOUR / EVERY)
SERIES = 16
ERRORS = 50
LONGEST = 1000  # characters
MOST_BYTES = 2_000_000  # per agent
COUNTERS = ("records_consumed", "fires", "dispatch_attempts", "rows_delivered", "records_dead")
COMMITS = "commit_seconds"
NO_COMMITS: Sequence[float] = (0.0,) * (len(BY_NAME[COMMITS].buckets) + 1)
GIVEN_UP = "given up"
RESTARTED = "its process ended and was started again"

CounterValues = dict[str, float]


class AgentSample(NamedTuple):
    """`read`, `fired`, `sent`, and the values of `reasons` are per second. `commit` and `slowest` are the
    median and the 99th percentile of the seconds of a commit; None without a commit."""

    at: float
    read: float
    fired: float
    sent: float
    lag: int
    groups: int
    commit: float | None
    slowest: float | None
    reasons: Mapping[str, float]


COLUMNS = AgentSample._fields[:-1]


class _Seen(NamedTuple):
    """The counts of a worker at the last sample. `offsets` are by topic and partition."""

    pid: int
    counts: CounterValues
    commits: Sequence[float]
    offsets: Mapping[tuple[str, int], int]


class LastHour:
    """Thread-safe. `clock` returns seconds since 1970."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[tuple[str, int], _Seen] = {}
        self._samples: dict[str, deque[AgentSample]] = {}
        self._topics: dict[str, Mapping[str, float]] = {}  # records a second at the newest sample
        self._outputs: dict[str, Mapping[str, float]] = {}  # rows a second, of agents with several outputs
        self._errors: deque[dict[str, Any]] = deque(maxlen=ERRORS)
        self._dead: Counter[tuple[str, str]] = Counter()
        self._failing: dict[tuple[str, str, int], tuple[str | None, str | None]] = {}
        self._taken = clock()

    def note(self, report: WorkerReport, reports: Callable[[], Sequence[WorkerReport]]) -> None:
        """Keeps the errors of a new report. Takes a sample of all `reports` when one is due."""
        now = self._clock()
        with self._lock:
            for partition in report.partitions:
                self._note_error(report.agent, partition, now)
            if now - self._taken >= EVERY:
                self._take(reports(), now)

    def document(self, since: float) -> dict[str, Any]:
        """The samples after `since`, in columns, by agent; and the newest errors, newest first."""
        with self._lock:
            newer = {
                name: [sample for sample in samples if sample.at > since] for name, samples in self._samples.items()
            }
            agents = {
                name: _columns(samples) | {"topics": self._topics[name], "outputs": self._outputs[name]}
                for name, samples in newer.items()
            }
            return {"every": EVERY, "agents": agents, "errors": list(reversed(self._errors))}

    def _note_error(self, agent: str, partition: PartitionReport, now: float) -> None:
        place, failing = (agent, partition.topic, partition.number), (partition.error, partition.detail)
        if self._failing.get(place, (None, None)) == failing:
            return
        self._failing[place] = failing
        if partition.error is not None:
            error = {"error": partition.error, "detail": (partition.detail or "")[:LONGEST]}
            self._errors.append({"at": now, "agent": agent, "topic": place[1], "partition": place[2], **error})

    def _note_dead(self, agent: str, counts: Mapping[str, float], now: float) -> None:
        """Keep one error for each agent and reason: how many records were given up in this run, with the time of the
        last one."""
        for reason, new in _labelled(counts, "records_dead"):
            if new <= 0:
                continue
            self._dead[agent, reason] += int(new)
            place = {"agent": agent, "topic": None, "partition": None, "error": GIVEN_UP}
            text = f"{self._dead[agent, reason]} given up in this run, with the reason {reason}: see the dead letters"
            others = [error for error in self._errors if error.get("dead") != [agent, reason]]
            self._errors = deque([*others, {"at": now, **place, "detail": text, "dead": [agent, reason]}], ERRORS)

    def _take(self, reports: Sequence[WorkerReport], now: float) -> None:
        seconds, self._taken = max(now - self._taken, 1e-3), now
        by_agent: dict[str, list[WorkerReport]] = {}
        for report in reports:
            by_agent.setdefault(report.agent, []).append(report)
        for agent, of in by_agent.items():
            counts, topics, commits = Counter[str](), Counter[str](), NO_COMMITS
            for report in of:
                new = self._difference(report, now)
                counts.update(new.counts)
                commits = [one + other for one, other in zip(commits, new.commits, strict=True)]
                for (topic, _), records in new.offsets.items():
                    topics[topic] += records
            self._note_dead(agent, counts, now)
            self._topics[agent] = {name: round(records / seconds, 4) for name, records in topics.most_common(SERIES)}
            outputs = islice(_labelled(counts, "rows_delivered"), SERIES)
            self._outputs[agent] = {name: round(rows / seconds, 4) for name, rows in outputs}
            samples = self._samples.setdefault(agent, deque(maxlen=SAMPLES))
            samples.append(_sample(now, seconds, of, counts, commits))

    def _difference(self, report: WorkerReport, now: float) -> _Seen:
        """The counts of the worker since the last sample. A new process starts at 0. A partition starts at the offset
        of its first report. The first sample has no rates, but the records that were given up before it."""
        name, seen = (report.agent, report.worker), _seen(report)
        before = self._seen.get(name)
        self._seen[name] = seen
        if before is None:
            dead = {key: value for key, value in seen.counts.items() if key.startswith("records_dead/")}
            return _Seen(report.pid, dead, NO_COMMITS, {})
        if before.pid != report.pid:
            place = {"agent": report.agent, "topic": None, "partition": None}
            self._errors.append({"at": now, **place, "error": "restart", "detail": RESTARTED})
            before = _Seen(report.pid, {}, NO_COMMITS, before.offsets)
        counts = {key: value - before.counts.get(key, 0.0) for key, value in seen.counts.items()}
        commits = [one - other for one, other in zip(seen.commits, before.commits, strict=True)]
        offsets = {place: max(0, at - before.offsets.get(place, at)) for place, at in seen.offsets.items()}
        return _Seen(report.pid, counts, commits, offsets)


def _seen(report: WorkerReport) -> _Seen:
    counts: CounterValues = {}
    commits: Sequence[float] = NO_COMMITS
    for name, labels, value in report.metrics:
        if isinstance(value, list):
            commits = value[:-1] if name == COMMITS else commits
        elif name in COUNTERS:
            counts["/".join((name, *labels))] = value
    known = (partition for partition in report.partitions if partition.offset >= 0)
    return _Seen(
        report.pid, counts, commits, {(partition.topic, partition.number): partition.offset for partition in known}
    )


def _sample(
    at: float, seconds: float, reports: Sequence[WorkerReport], counts: Mapping[str, float], commits: Sequence[float]
) -> AgentSample:
    partitions = [partition for report in reports for partition in report.partitions]
    reasons = {reason: count / seconds for reason, count in islice(_labelled(counts, "fires"), SERIES)}
    return AgentSample(
        at,
        counts.get("records_consumed", 0.0) / seconds,
        sum(reasons.values()),
        counts.get("dispatch_attempts/success", 0.0) / seconds,
        sum(partition.lag or 0 for partition in partitions),
        sum(partition.groups for partition in partitions),
        quantile(commits, 0.5),
        quantile(commits, 0.99),
        reasons,
    )


def _labelled(counts: Mapping[str, float], name: str) -> Iterator[tuple[str, float]]:
    """The values of a counter by its label."""
    return ((key.partition("/")[2], count) for key, count in counts.items() if key.startswith(f"{name}/"))


def quantile(counts: Sequence[float], share: float) -> float | None:
    """The value that the given share of the observations does not exceed, interpolated within its bucket. None without
    observations."""
    bounds, wanted, low = BY_NAME[COMMITS].buckets, sum(counts) * share, 0.0
    if not wanted:
        return None
    for bound, count in zip(bounds, counts, strict=False):  # the last bucket has no bound
        if count >= wanted:
            return low + (bound - low) * wanted / count
        wanted, low = wanted - count, bound
    return bounds[-1]


def _columns(samples: Sequence[AgentSample]) -> dict[str, Any]:
    columns: dict[str, Any] = {name: [_short(getattr(sample, name)) for sample in samples] for name in COLUMNS}
    names = sorted({reason for sample in samples for reason in sample.reasons})
    columns["reasons"] = {name: [_short(sample.reasons.get(name, 0.0)) for sample in samples] for name in names}
    return columns


def _short(value: float | None) -> float | None:
    """Rounded: the page only draws it."""
    return None if value is None else round(value, 4)
