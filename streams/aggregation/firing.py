"""The events of groups that end: results, dead letters and notes of the history."""

from collections import Counter
from typing import Any, Protocol

from msgspec.structs import replace

from sluicegate.streams.aggregation.events import Closing, Decided, Fire, GroupEnded, Unhandled, timed_out
from sluicegate.streams.aggregation.group_faults import GroupFaults, fault
from sluicegate.streams.aggregation.layout import BYTES, Bags, GroupState
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.errors import SluicegateError
from sluicegate.streams.reducers import BEYOND, ReducerFailed

# bytes in the bags of the groups that one expiry fires: one commit has their results, several times over
SLICE_BYTES = 4 * 1024 * 1024


class EndingGroups(Protocol):
    """The part of Groups that an Emitter uses."""

    rule: Rule
    events: list[Fire | Decided]
    outcomes: Counter[tuple[str, str]]

    def fired(self, key: bytes, state: GroupState, reason: str, now: float, values: dict[str, Any]) -> Fire:
        """The event of a group that ends now, with these computed fields."""


class Emitter:
    """Turns the end of a group into events: its result, a dead letter, or a note of the history.

    `faults` counts errors of the engine by group. With `notes`, each group that ends is also an event.
    """

    __slots__ = ("_groups", "faults", "notes")

    def __init__(self, groups: EndingGroups, notes: bool) -> None:
        self._groups, self.notes = groups, notes
        self.faults = GroupFaults()

    def let_out(
        self, key: bytes, state: GroupState, bags: Bags, reason: str, now: float, without_result: bool = False
    ) -> None:
        """Compute the result and emit it. A group becomes a dead letter, with the fields that can be computed, if it
        ends `without_result`, if the engine has given it up, or if a user reducer fails. Raises GroupFault."""
        groups = self._groups
        rule = groups.rule
        try:
            if self.faults and self.faults.gives_up(group := groups.fired(key, state, reason, now, {})):
                self._give_up(self.faults.letter(replace(group, values=rule.computable(state, bags))))
                return
            fire = groups.fired(key, state, reason, now, rule.values(state, bags))
            if without_result:
                groups.events.append(timed_out(fire))
            else:
                self.emit(fire)
        except ReducerFailed as error:
            group = groups.fired(key, state, reason, now, rule.computable(state, bags))
            self._give_up(Unhandled(group, str(error), 1, "reducer", error.where, stage="aggregate"))
        except SluicegateError:
            raise
        except Exception as error:
            raise fault(error, groups.fired(key, state, reason, now, {})) from error

    def tell(self, fire: Fire) -> None:
        """As `emit`. Raises GroupFault."""
        try:
            self.emit(fire)
        except SluicegateError:
            raise
        except Exception as error:
            raise fault(error, replace(fire, values={})) from error

    def emit(self, fire: Fire) -> None:
        """Emit the result as `having` and the routes of the file decide. A result with a number that it cannot
        represent becomes a dead letter."""
        groups = self._groups
        results = groups.rule.results
        if names := groups.rule.overflowed(fire.values):
            text = f"the records of the group give {' and '.join(names)} {BEYOND}"
            self._give_up(Unhandled(fire, text, 1, "overflow", stage="aggregate"))
        else:
            groups.events += [fire] if results is None else results.events(fire, groups.outcomes)

    def _give_up(self, letter: Unhandled) -> None:
        """Emit the dead letter. It is omitted for an early result, because the last result will report the error."""
        if not letter.fire.goes_on:
            self._groups.events.append(letter)

    def note(self, key: bytes, state: GroupState, reason: str, now: float) -> None:
        """Note the end of the group for the history."""
        if self.notes:
            self._groups.events.append(GroupEnded(self._groups.fired(key, state, reason, now, {})))


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
