"""The end of groups: their results, early results and dead letters."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from sluicegate.streams.aggregation.contents import GroupContents
from sluicegate.streams.aggregation.events import DROPPED, EARLY, Closing, Fire, GroupEnded, Unhandled, timed_out
from sluicegate.streams.aggregation.group_faults import GroupFaults, fault
from sluicegate.streams.aggregation.layout import BYTES, COUNT, ROWS, Bags, GroupState
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.errors import SluicegateError
from sluicegate.streams.reducers import BEYOND, ReducerFailed

# bytes in the bags of the groups that one expiry fires: one commit has their results, several times over
SLICE_BYTES = 4 * 1024 * 1024


class FiringGroups(GroupContents):
    """Open groups that fire.

    `outcomes` counts how often each clause was true, false or failed. `faults` counts errors of the engine by group.
    With `notes`, each group that ends is also an event.
    """

    __slots__ = ("faults", "notes", "outcomes")

    def __init__(self, rule: Rule, notes: bool = False) -> None:
        super().__init__(rule)
        self.notes = notes
        self.faults = GroupFaults()
        self.outcomes: Counter[tuple[str, str]] = Counter()

    def fire(self, key: bytes, reason: str, now: float) -> None:
        """Close the group. Emit its result, or do what `on_timeout` requires."""
        early = self.early
        early.revision = self.results(key) + 1 if early.past or self.closed else 1
        repeats = early.emit is not None and self.repeats(key)
        state, bags = self.drop(key)
        self._note(key, state, reason, now)
        if repeats:
            return
        on_timeout = self.rule.aggregation.on_timeout if reason == "timeout" else "fire"
        if on_timeout == "discard":
            self.counts["discarded"] += 1
            return
        send = self.emit if on_timeout == "fire" else self._letter
        self.let_out(key, state, bags, reason, now, send)

    def _letter(self, fire: Fire) -> None:
        """Make the group a dead letter: it has no result, and no handler gets it."""
        self.events.append(timed_out(fire))

    def grew(self, key: bytes, state: GroupState, now: float, before: Any = None) -> None:
        """Note that the group has another record and stays open. Emit an early result if one is due. `before` are the
        computed fields without the record."""
        early = self.early
        if key in self.closed:
            return
        if early.count and not state[COUNT] % early.count:
            self.tell(key, now)
        elif key in early.quiet:
            early.changed(key, now)
        elif early.on_change and before != self.rule.computable(state, self.bags.get(key, [])):
            self.tell(key, now)

    def tell(self, key: bytes, now: float) -> None:
        """Emit an early result of the group, unless the last result covers all of its records."""
        state = self.states[key]
        if self.early.has_all(key, state):
            return
        bags = [bag.copy() for bag in self.bags.get(key, ())]
        self.early.revision = self.results(key) + 1
        self.early.sent(key, state)
        self.touched[key] = state
        self.let_out(key, state, bags, EARLY, now, self.emit)

    def tell_due(self, now: float, most: int) -> int:
        """Emit up to `most` early results that are due, and not many more bytes than SLICE_BYTES. Returns their
        number."""
        many = size = 0
        for key in self.early.due(now) if most > 0 else ():
            size += self.states[key][BYTES]
            self.tell(key, now)
            many += 1
            if many >= most or size > SLICE_BYTES:
                break
        return many

    def results(self, key: bytes) -> int:
        """The number of results that the group had."""
        return self.early.results(key)

    def repeats(self, key: bytes) -> bool:
        """Whether the last result would repeat an early one, and the file omits it."""
        emit = self.early.emit
        return emit is not None and not emit.final and self.early.has_all(key, self.states[key])

    def let_out(
        self, key: bytes, state: GroupState, bags: Bags, reason: str, now: float, send: Callable[[Fire], object]
    ) -> None:
        """Compute the result and pass it to `send`. A group becomes a dead letter, with the fields that can be
        computed, if the engine has given it up or a user reducer fails. Raises GroupFault."""
        try:
            if self.faults and self.faults.gives_up(group := self.fired(key, state, reason, now, {})):
                self._give_up(self.faults.letter(replace(group, values=self.rule.computable(state, bags))))
                return
            send(self.fired(key, state, reason, now, self.rule.values(state, bags)))
        except ReducerFailed as error:
            group = self.fired(key, state, reason, now, self.rule.computable(state, bags))
            self._give_up(Unhandled(group, str(error), 1, "reducer", error.where, stage="aggregate"))
        except SluicegateError:
            raise
        except Exception as error:
            raise fault(error, self.fired(key, state, reason, now, {})) from error

    def _give_up(self, letter: Unhandled) -> None:
        """Emit the dead letter. It is omitted for an early result, because the last result will report the error."""
        if not letter.fire.goes_on:
            self.events.append(letter)

    def flush(self, key: bytes, now: float) -> None:
        """Close the group for good, and emit the records that no result covers yet."""
        self.fire(key, "manual", now)

    def emit(self, fire: Fire) -> None:
        """Emit the result as `having` and the routes of the file decide. A result with a number that it cannot
        represent becomes a dead letter."""
        results = self.rule.results
        if names := self.rule.overflowed(fire.values):
            text = f"the records of the group give {' and '.join(names)} {BEYOND}"
            self._give_up(Unhandled(fire, text, 1, "overflow", stage="aggregate"))
        else:
            self.events += [fire] if results is None else results.events(fire, self.outcomes)

    def end_as(self, key: bytes, reason: str, by: str, now: float) -> None:
        """Close the group with this reason. `by` is as in Closing."""
        (self.flush(key, now) if reason == "manual" else self.fire(key, reason, now))

    def forget(self, key: bytes, now: float) -> None:
        """Close the group for good and drop its records without a result."""
        self.early.revision = self.results(key) + 1
        state, _ = self.drop(key)
        self._note(key, state, DROPPED, now)

    def _note(self, key: bytes, state: GroupState, reason: str, now: float) -> None:
        if self.notes:
            self.events.append(GroupEnded(self.fired(key, state, reason, now, {})))

    def fired(self, key: bytes, state: GroupState, reason: str, now: float, values: dict[str, Any]) -> Fire:
        """The event of a group that ends now, with these computed fields."""
        fire = fired(key, state, reason, now, values, None, self.early.revision, self.early.is_final(reason))
        return replace(fire, count=state[ROWS]) if self.rule.aggregation.table else fire

    def ending(self, key: bytes, state: GroupState) -> Fire:
        """The group as its next result would identify it. The keys of panes have no early results."""
        self.early.revision = self.results(key) + 1
        return self.fired(key, state, "", 0.0, {})


def fired(
    key: bytes,
    state: GroupState,
    reason: str,
    now: float,
    values: dict[str, Any],
    window: Closing | None = None,
    revision: int = 1,
    final: bool | None = None,
) -> Fire:
    """The event of a group that ends now, with these computed fields. The other fields are as in Fire."""
    count, first, last, opened, _, trace = state[:BYTES]
    closed = max(now, opened)
    return Fire(
        key, count, reason, first, last, opened, closed, trace, values, (), None, window, 0, None, revision, final
    )
