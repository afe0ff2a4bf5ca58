"""What a soak found, as JSON and for people, in the manner of Jepsen's reports."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.chaos.verdict import Verdict
from tests.figures import origin_line
from tests.soak.field import Setting
from tests.soak.recovery import percentile

SHOWN = 12  # lines of each anomaly

MEANING = {
    "lost": "an input record without its effect",
    "duplicate": "an input record whose effect counts twice for a receiver that drops repeats by (shard, number)",
    "aborted read": "an effect of a record whose transaction was aborted",
    "order": "results of a key in another order than their records",
    "unseen": "a bad record without its dead letter, byte for byte",
    "refused": "a good record among the dead letters",
}


@dataclass(frozen=True)
class Report:
    """Times are seconds: `faulty` those of faults, `fed` those of load. `broken` are faults that could not be carried
    out; `ended_alone`: how often workers ended unasked, by exit code, and were started again; `unclean`: those that did
    not end with 0 after SIGTERM; `last_ends`: how the workers ended when all was calm."""

    setting: Setting
    faulty: float
    fed: float
    drained: float | None
    load: tuple[float, float, float]
    processors: int
    faults: Mapping[str, int]
    process_faults: int
    missed: Mapping[str, int]
    broken: Sequence[str]
    recoveries: Mapping[str, Sequence[float]]
    slowest: Sequence[str]
    unrecovered: int
    records: int
    messages: int
    copies: int
    aborted_transactions: int
    ended_alone: Mapping[str, int]
    unclean: Sequence[str]
    last_ends: Sequence[int]
    anomalies: Mapping[str, Sequence[str]]

    @property
    def clean(self) -> bool:
        """Nothing was violated, and all had its effects within the time for draining."""
        return not any(self.anomalies.values()) and self.drained is not None

    @property
    def total(self) -> int:
        return sum(self.faults.values())


def found(groups: Verdict, booked: Verdict, aborted: Sequence[str]) -> dict[str, list[str]]:
    """The anomalies of both agents, by name."""
    names = ("lost", "duplicate", "order", "unseen", "refused")
    both = {name: [*getattr(groups, name), *(f"booked: {line}" for line in getattr(booked, name))] for name in names}
    both["aborted read"] = list(aborted)
    return {name: both[name] for name in MEANING}


def write(report: Report, path: Path) -> None:
    """`path`.json and `path`.md."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".json").write_text(json.dumps(as_json(report), indent=1) + "\n")
    path.with_suffix(".md").write_text(as_markdown(report))


def as_json(report: Report) -> dict[str, Any]:
    """Of recovery times the percentiles, of anomalies the counts and first lines."""
    document = asdict(report)
    document["recoveries"] = recovered(report)
    document["anomalies"] = {
        name: {"count": len(lines), "first": list(lines[:SHOWN])} for name, lines in report.anomalies.items()
    }
    return document | {
        "clean": report.clean,
        "total_faults": report.total,
        "records_per_second": round(report.records / report.fed, 1),
    }


def recovered(report: Report) -> dict[str, dict[str, float]]:
    """By kind, and all together."""
    every = {
        "all": [time for times in report.recoveries.values() for time in times],
        **dict(sorted(report.recoveries.items())),
    }
    return {
        name: {
            "measured": len(times),
            "p50": round(percentile(times, 0.5), 2),
            "p99": round(percentile(times, 0.99), 2),
            "most": round(max(times), 2),
        }
        for name, times in every.items()
        if times
    }


def _figures(report: Report, drained: str) -> list[str]:
    return _table(
        ["what", "number"],
        [
            ["faults", report.total],
            ["of them processes hit", report.process_faults],
            ["input records", report.records],
            ["a second", f"{report.records / report.fed:.0f}"],
            ["messages in all topics", report.messages],
            ["exact copies, which receivers drop", report.copies],
            ["transactions aborted among the input", report.aborted_transactions],
            ["all had its effects", drained],
            ["faults after which a partition did not go on", report.unrecovered],
            ["workers that ended unasked and were started again, by exit code", _said(report.ended_alone)],
            ["ends after SIGTERM that were not 0", len(report.unclean)],
            ["faults that could not be carried out", len(report.broken)],
        ],
    )


def as_markdown(report: Report) -> str:
    setting, load = report.setting, " ".join(f"{load_average:.1f}" for load_average in report.load)
    brokers = "one broker" if setting.brokers == 1 else f"{setting.brokers} brokers"
    verdict = "Nothing was lost, repeated or out of order." if report.clean else "**Violations were found.**"
    twin = f" **Twin: without the protections `{setting.twin}`.**" if setting.twin else ""
    drained = "never" if report.drained is None else f"{report.drained:.0f} s after the last fault"
    origin = origin_line(f"{report.processors} cores, load {report.load[0]:.1f}")
    return "\n".join(
        [
            f"# Soak: {setting.store}, {report.faulty:.0f} s of faults, {report.total} faults",
            "",
            f"{verdict}{twin} Three workers with two agents each, {brokers}, {setting.store}; seed {setting.seed};",
            f"{report.processors} processors, load averages at the end {load}.\n\n{origin}",
            "",
            *_figures(report, drained),
            "## Anomalies",
            "",
            *_table(
                ["anomaly", "found", "means"], [[name, len(report.anomalies[name]), MEANING[name]] for name in MEANING]
            ),
            *(f"- {name}: {line}" for name, lines in report.anomalies.items() for line in lines[:SHOWN]),
            *(f"- {line}" for line in [*report.unclean, *report.broken][:SHOWN]),
            "## Faults and recovery",
            "",
            "Seconds from a fault (of what was down or cut off: from its return) until every partition that it met "
            "had an effect of a record",
            "that came after it. Faults overlap, so another one often fell into that time. A group needs 7 records "
            "or 1 s.",
            "",
            *_table(["fault", "times", "missed", "p50", "p99", "most"], _rows(report)),
            f"{origin}\n\nThe slowest:",
            "",
            *(f"- {line}" for line in report.slowest),
            "",
        ]
    )


def _rows(report: Report) -> list[list[object]]:
    times = recovered(report)
    names = sorted({*report.faults, *report.missed})
    rows: list[list[object]] = [["all", report.total, sum(report.missed.values())]]
    rows += [[name, report.faults.get(name, 0), report.missed.get(name, 0)] for name in names]
    return [[*row, *(times.get(str(row[0]), {}).get(name, "-") for name in ("p50", "p99", "most"))] for row in rows]


def _said(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name}: {count}" for name, count in sorted(counts.items())) or "none"


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    return [
        f"| {' | '.join(head)} |",
        "|" + "---|" * len(head),
        *(f"| {' | '.join(map(str, row))} |" for row in rows),
        "",
    ]
