"""Creates the groups of a rule. No other module asks whether the rule has windows or is a correlation."""

from collections.abc import Callable, Sequence
from importlib import import_module

from sluicegate.streams.agent import Window
from sluicegate.streams.aggregation.accept import accept, carefully
from sluicegate.streams.aggregation.compiled.loop import loop_of
from sluicegate.streams.aggregation.compiled.placing import BY_KEY
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.aggregation.seen import KnownIds
from sluicegate.streams.aggregation.taking import Duplicates, exactly, fill
from sluicegate.streams.contracts.headers import TIME
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.correlation.groups import CorrelatedGroups
from sluicegate.streams.windows.boundaries import tumbling
from sluicegate.streams.windows.clock import NEVER
from sluicegate.streams.windows.correlated import CorrelatedByTime
from sluicegate.streams.windows.groups import WindowGroups, taken_with_care
from sluicegate.streams.windows.intake import judged, take
from sluicegate.streams.windows.marks import stamp
from sluicegate.streams.windows.origins import OriginGroups
from sluicegate.streams.windows.times import reader


def accept_into(groups: Groups, records: Sequence[Record], now: float) -> None:
    """Add the records to groups of any kind, as `accept`. Raises Halt."""
    if isinstance(groups, WindowGroups):
        groups.accept(records, now)
    else:
        accept(groups, records, now)


def fill_into(groups: Groups, records: Sequence[Record], now: float, duplicates: Duplicates | None) -> None:
    """Add the records for which `where` is true and that are not duplicates to groups of any kind. Raises Halt."""
    if isinstance(groups, WindowGroups):
        take(groups, records, now, duplicates)
    else:
        fill(groups, records, now, duplicates)


def window_of(rule: Rule, span: tuple[int, int] | None = None) -> Callable[[Record], int | None]:
    """A function that returns the start of a record's window, in milliseconds. It returns None without windows, and for
    a record without a time. `span` is the start and end of one window. It is required if the time of a record alone
    does not determine its window."""
    window = rule.aggregation.window
    if window is None or not (window.windower.placed or span):
        return lambda record: None
    time, kind = _time(rule, window), tumbling(window)
    own = window.windower
    last = kind.size if own.extends else int(bool(own.keys) and not own.immediate)  # milliseconds before the end

    def start(record: Record) -> int | None:
        try:
            at = time(record)
        except Exception:
            return None
        if span is None or window.windower.placed:
            return kind.start(at)
        return span[0] if span[0] <= at <= span[1] - last else None

    return start


def time_of(rule: Rule) -> Callable[[Record], int] | None:
    """A function that reads the time of a record that `window_of` could read. None, unless windows are limited by a
    number of records."""
    window = rule.aggregation.window
    return _time(rule, window) if window is not None and window.last else None


def _time(rule: Rule, window: Window) -> Callable[[Record], int]:
    return _re_keyed if window.origins else reader(window, rule.reader.message)


def _re_keyed(record: Record) -> int:
    """The time that the re-keying agent wrote into the record. Raises ValueError."""
    time_stamp = stamp(record)
    if time_stamp is None or time_stamp.time == NEVER:
        raise ValueError(f"it has no {TIME}")
    return time_stamp.time


def known_ids(groups: Groups) -> KnownIds | None:
    """The keys of correlations that ended, which the changelog stores as it stores the ids of `dedupe`. None for other
    groups."""
    return groups.ended.ids if isinstance(groups, CorrelatedGroups | CorrelatedByTime) else None


def groups_of(rule: Rule, notes: bool = False) -> Groups:
    """Create the groups of one partition under this rule. None is open. `notes` is as in Groups."""
    if rule.agent.times is not None:
        return OriginGroups(rule, rule.agent.times, notes)
    window, correlation = rule.aggregation.window, rule.aggregation.correlation
    if window is None:
        return Groups(rule, notes) if correlation is None else CorrelatedGroups(rule, correlation, notes)
    module, _, name = window.windower.groups.partition(":")
    opened: Groups = getattr(import_module(f"sluicegate.streams.windows.{module}"), name)(rule, window, notes)
    return opened


def code_of(rule: Rule) -> str:
    """The source of the compiled code of the rule, for display."""
    groups, where = groups_of(rule), rule.where
    windows = groups if isinstance(groups, WindowGroups) else None
    placing = BY_KEY if windows is None else windows.placing
    adds, whole = rule.grouped and rule.agent.times is None, None
    dedupes = rule.agent.dedupe is not None
    if adds and (where is not None or dedupes) and (windows is None or windows.merged is None):
        whole = loop_of(rule, True, exactly if windows is None else judged, placing, dedupes)
    if whole is not None:
        return whole.source
    loop = loop_of(rule, False, carefully if windows is None else taken_with_care, placing) if adds else None
    parts = [made.source for made in (where.answers if where is not None else None, loop) if made is not None]
    return "\n".join(parts) or "# nothing is compiled: each record is taken with every check\n"
