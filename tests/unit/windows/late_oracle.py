"""What happens to late records with `late: {new}` and `late: {amend}`, in plain Python, no engine code."""

from dataclasses import dataclass, field
from math import inf

from tests.unit.windows.oracle import Open, Oracle, Result, Step
from tests.unit.windows.session_oracle import Session, SessionOracle

Name = tuple[int, bytes]


@dataclass
class Kept:
    """A window with late records. `since` is the owner's time of the first one that is in no result."""

    group: Open
    revision: int = 0
    since: float | None = None


@dataclass
class AmendOracle(Oracle):
    """A window stays for `keep` ms of event time after its close, and is sent again `gather` s after a late record."""

    keep: int = 0
    gather: float = 0.0
    kept: dict[Name, Kept] = field(default_factory=dict)

    def is_late(self, offset: int, step: Step, start: int) -> bool:
        assert step.key is not None
        closes, name = self.end_of(start) + self.grace, (start, step.key)
        if closes > self.watermark and name not in self.kept:
            return False
        if closes + self.keep <= self.watermark:
            self.refused.append((offset, "late"))
            return True
        kept = self.kept.setdefault(name, Kept(Open(offset, step.now)))
        kept.group.last = offset
        kept.group.amounts.append(step.amount)
        kept.since = step.now if kept.since is None else kept.since
        return True

    def end(self, name: Name, reason: str, by: str) -> None:
        self.kept[name] = Kept(self.open[name])
        self.tell(name, by)
        del self.open[name]

    def tell(self, name: Name, by: str) -> None:
        kept = self.kept[name]
        kept.revision, kept.since, group = kept.revision + 1, None, kept.group
        ends = self.end_of(name[0])
        numbers = group.first, group.last, len(group.amounts), sum(group.amounts), kept.revision
        self.results.append(Result(name[1], name[0], ends, "window", by, *numbers))

    def close(self, by: str) -> None:
        """What happens at a lower watermark comes first."""
        closes = {start: self.end_of(start) + self.grace for start, _ in (*self.open, *self.kept)}
        moments, watermark = {*closes.values(), *(at + self.keep for at in closes.values())}, self.watermark
        for moment in sorted(moment for moment in moments if moment <= watermark):
            self.watermark = moment
            super().close(by)
            self.end_kept()
        self.watermark = watermark

    def end_kept(self) -> None:
        for name in sorted(self.kept, key=lambda name: (name[0], self.kept[name].group.first)):
            kept = self.kept[name]
            if self.end_of(name[0]) + self.grace + self.keep <= self.watermark:
                if kept.since is not None:
                    self.tell(name, "late")
                del self.kept[name]

    def look(self, now: float) -> None:
        super().look(now)
        self.tell_all(now)

    def tell_all(self, now: float = inf) -> None:
        """Send again what late records have changed, and what is due by now."""
        waiting = [(kept.since, name) for name, kept in self.kept.items() if kept.since is not None]
        for since, name in sorted(waiting):
            if since + self.gather <= now:
                self.tell(name, "late")


@dataclass
class NewOracle(Oracle):
    """Late records of a window make a further result, `gather` s after the first one."""

    gather: float = 0.0
    added: dict[Name, Open] = field(default_factory=dict)

    def is_late(self, offset: int, step: Step, start: int) -> bool:
        assert step.key is not None
        if self.end_of(start) + self.grace > self.watermark:
            return False
        name = (start, step.key)
        group = self.added.setdefault(name, Open(offset, step.now))
        group.last = offset
        group.amounts.append(step.amount)
        if len(group.amounts) == self.count:
            self.tell(name, "count", "")
        return True

    def tell(self, name: Name, reason: str, by: str) -> None:
        group = self.added.pop(name)
        numbers = group.first, group.last, len(group.amounts), sum(group.amounts)
        self.results.append(Result(name[1], name[0], self.end_of(name[0]), reason, by, *numbers))

    def look(self, now: float) -> None:
        super().look(now)
        for name in [name for name, group in self.added.items() if group.opened + self.gather <= now]:
            self.tell(name, "window", "late")


@dataclass
class NewSessionOracle(SessionOracle):
    """Late records of a key that touch make one session, whose result follows `gather` s after the first one."""

    gather: float = 0.0
    added: dict[bytes, list[Session]] = field(default_factory=dict)
    began: dict[int, float] = field(default_factory=dict)  # the owner's time of each late record, by offset

    def late(self, offset: int, step: Step) -> None:
        assert step.key is not None
        sessions = self.added.setdefault(step.key, [])
        touched = [session for session in sessions if session.begin - self.gap <= step.time <= session.end + self.gap]
        touched.sort(key=lambda session: min(session.records))
        self.began[offset] = step.now
        one = touched[0] if touched else Session(step.now)
        one.records.append((offset, step.time, step.amount))
        if not touched:
            sessions.append(one)
        for session in touched[1:] if len(one.records) < self.most else ():
            one.records += session.records
            sessions.remove(session)
        if len(one.records) >= self.most:
            self.results.append(one.result(step.key, self.gap, "limit", ""))
            sessions.remove(one)

    def look(self, now: float) -> None:
        super().look(now)
        for key, sessions in self.added.items():
            for session in [session for session in sessions if self.since(session) + self.gather <= now]:
                sessions.remove(session)
                self.results.append(session.result(key, self.gap, "window", "late"))

    def since(self, session: Session) -> float:
        return min(self.began[offset] for offset, *_ in session.records)
