"""What windows in event time do. A record that is refused changes nothing: neither the watermark nor a window."""

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from tests.unit.oracle.groups import Counted, Groups, Open, Result, values
from tests.unit.oracle.words import Refusal, Row, is_number

AHEAD = 3600.0
LAST = 253_402_300_799_999
NEVER = float("inf")


def milliseconds(value: Any) -> int:
    """Raises Refusal."""
    if not is_number(value) or not 0 <= value <= LAST:
        raise Refusal("bad-time")
    return int(value)


@dataclass
class Windows(Groups):
    """What all kinds have in common. Times are in ms; `idle` is in seconds. The name of a group is (start, key)."""

    watermark: int = -1
    seen: float = 0.0
    by: str = ""

    def __post_init__(self) -> None:
        window = self.rule["window"]
        kind = next(name for name in ("tumbling", "hopping", "session") if name in window)
        self.size, self.grace, self.every, self.offset = (
            1000 * int(window.get(name, "0s").removesuffix("s")) for name in (kind, "grace", "every", "offset")
        )
        self.idle = float(window["idle"].removesuffix("s"))
        self.at_most = float(window["at_most"].removesuffix("s")) if "at_most" in window else NEVER

    def time(self, row: Row, at: int) -> int:
        """Raises Refusal."""
        source = self.rule["window"].get("time")
        return at if source is None else milliseconds(row.get(source["field"]))

    def closes(self, name: Any, group: Open) -> int:
        """The watermark that closes the window of this group."""
        raise NotImplementedError

    def span(self, name: Any, group: Open) -> tuple[int, int]:
        raise NotImplementedError

    def take(self, key: str | None, counted: Counted) -> None:
        sent = counted.sent
        try:
            time = self.time(counted.row, sent.at)
        except Refusal:
            raise Refusal(None if self.rule.get("on_missing") == "skip" else "bad-time") from None
        if key is None:
            raise Refusal("no-key")
        if time > (sent.now + AHEAD) * 1000:
            raise Refusal("time-ahead")
        before = deepcopy((self.watermark, self.open)), len(self.results)
        try:
            self.pass_time(time)
            self.count(key, time, counted)
        except Refusal as refusal:
            if refusal.reason != "late":
                (self.watermark, self.open), many = before
                del self.results[many:]
            elif self.rule["window"].get("late") == "skip":
                raise Refusal(None) from None
            raise

    def count(self, key: str, time: int, counted: Counted) -> None:
        """Raises Refusal."""
        raise NotImplementedError

    def left_out(self, time: int, now: float) -> None:
        """`where` is false for a record at this time."""
        if time <= (now + AHEAD) * 1000:
            self.pass_time(time)

    def pass_time(self, time: int) -> None:
        if time > self.watermark:
            self.watermark = time
            self.close("event")

    def close(self, by: str) -> None:
        while over := [(at, self.open[name].first, name) for name, at in self.ends() if at <= self.watermark]:
            self.by = by
            self.end(min(over, key=lambda session: session[:2])[2], "window")
            self.by = ""

    def ends(self) -> list[tuple[Any, int]]:
        return [(name, self.closes(name, group)) for name, group in self.open.items()]

    def oldest(self) -> Any:
        return min(self.open, key=lambda name: (self.closes(name, self.open[name]), self.open[name].first))

    def end(self, name: Any, reason: str) -> None:
        group = self.open.pop(name)
        window = (*self.span(name, group), self.by, 1)
        self.results.append(Result(name[1], reason, group.records, values(self.rule, group.records), window))

    def next_due(self) -> float:
        if not self.open:
            return NEVER
        silent = self.idle + max(self.seen, min(at for _, at in self.ends()) / 1000)
        return min(silent, min(group.opened for group in self.open.values()) + self.at_most)

    def look(self, now: float) -> None:
        over = [at for _, at in self.ends() if at <= (now - self.idle) * 1000]
        if over and now >= self.seen + self.idle:
            self.watermark = max(self.watermark, *over)
            self.close("idle")
        for name in [name for name, group in self.open.items() if group.opened + self.at_most <= now]:
            self.by = "at_most"
            self.end(name, "window")
            self.by = ""


@dataclass
class Tumbling(Windows):
    def closes(self, name: Any, group: Open) -> int:
        return int(name[0]) + self.size + self.grace

    def span(self, name: Any, group: Open) -> tuple[int, int]:
        return name[0], name[0] + self.size

    def count(self, key: str, time: int, counted: Counted) -> None:
        start = time - (time - self.offset) % self.size
        if start + self.size + self.grace <= self.watermark:
            raise Refusal("late")
        super(Windows, self).take((start, key), counted)  # type: ignore[arg-type]  # the name of the group


@dataclass
class Hopping(Windows):
    """Each window has its records. `max_groups` counts the panes: the parts of `every` with records, by key."""

    def closes(self, name: Any, group: Open) -> int:
        return int(name[0]) + self.size + self.grace

    def span(self, name: Any, group: Open) -> tuple[int, int]:
        return name[0], name[0] + self.size

    def pane(self, time: int) -> int:
        return time - (time - self.offset) % self.every

    def count(self, key: str, time: int, counted: Counted) -> None:
        pane = self.pane(time)
        starts = range(pane - self.size + self.every, pane + 1, self.every)
        starts_open = [start for start in starts if start + self.size + self.grace > self.watermark]
        if not starts_open:
            raise Refusal("late")
        for start in starts_open:
            group = self.open.setdefault((start, key), Open(counted.sent.now))
            group.records.append(counted)
            group.records.sort(
                key=lambda record: (self.pane(self.time(record.row, record.sent.at)), record.sent.offset)
            )


@dataclass
class Sessions(Windows):
    """The name of a session is (offset of the record that opened it, key)."""

    times: dict[int, int] = field(default_factory=dict)

    def begin(self, group: Open) -> int:
        return min(self.times[record.sent.offset] for record in group.records)

    def last_time(self, group: Open) -> int:
        return max(self.times[record.sent.offset] for record in group.records)

    def closes(self, name: Any, group: Open) -> int:
        return self.last_time(group) + self.size + self.grace + 1

    def span(self, name: Any, group: Open) -> tuple[int, int]:
        return self.begin(group), self.last_time(group) + self.size

    def count(self, key: str, time: int, counted: Counted) -> None:
        self.times[counted.sent.offset] = time
        touched = [
            name
            for name, group in self.open.items()
            if name[1] == key and self.begin(group) - self.size <= time <= self.last_time(group) + self.size
        ]
        touched.sort(key=lambda name: self.open[name].first)
        if not touched and time + self.size + self.grace < self.watermark:
            raise Refusal("late")
        name = touched[0] if touched else (counted.sent.offset, key)
        super(Windows, self).take(name, counted)
        for other in touched[1:] if name in self.open else ():
            if other in self.open:
                self.open[name].records += self.open.pop(other).records
        if name in self.open:
            self.judge(name, False)


def windows_of(rule: dict[str, Any], failing: Refusal) -> Windows:
    kinds = {"tumbling": Tumbling, "hopping": Hopping, "session": Sessions}
    return next(kinds[kind] for kind in kinds if kind in rule["window"])(rule, failing)
