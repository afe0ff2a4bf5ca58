"""Removes messages that a handler cannot use from a completed group. The other messages stay a group.

A group has only the values that its reducers stored. With `compute: {NAME: collect}` it has the whole messages, so the
result document can be computed again from the remaining messages.
"""

import base64
from collections.abc import Callable, Sequence
from threading import Lock

import msgspec
from msgspec.structs import replace

from sluicegate.schemas import Codec, json
from sluicegate.streams import failpoints
from sluicegate.streams.aggregation.events import BadItem, Fire
from sluicegate.streams.aggregation.layout import COUNT, GroupState
from sluicegate.streams.aggregation.reducers import apply
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.causes import cause
from sluicegate.streams.contracts.record import KeptRecord
from sluicegate.streams.errors import Fenced
from sluicegate.streams.handlers.attempts import BAD_ITEM, Rejected, RejectedMessages
from sluicegate.streams.handlers.outages import IsOutage
from sluicegate.streams.handlers.values import BadItems, Misfits
from sluicegate.streams.reducers import keeps_messages

_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


class GroupMembers:
    """The messages of the completed groups of one rule. No message can be removed from a group that does not store
    whole messages. Thread-safe, so no other object shares the rule."""

    def __init__(self, rule: Rule, codec: Codec) -> None:
        self._rule, self._codec = rule, codec
        self._one_at_a_time = Lock()  # an expression may be used by one thread at a time
        whole = [reducer.name for reducer in rule.aggregation.compute if keeps_messages(reducer)]
        self._name = whole[0] if whole else None

    def of(self, fire: Fire) -> list[bytes]:
        """The messages as they were read. In formats other than json and raw they are encoded again. Empty if the group
        stores no messages."""
        if self._name not in fire.values:
            return []
        items = [bytes(item) for item in _list(json.encode(fire.values[self._name]))]
        if len(items) != fire.count:  # another rule filled the group
            return []
        if self._codec.name == "json":
            return items
        if self._codec.name == "raw":
            return [base64.b64decode(json.decode_any(item)) for item in items]
        return [self._codec.encode(json.decode_any(item)) for item in items]

    def without(self, fire: Fire, bad: RejectedMessages) -> tuple[list[BadItem], Fire | None]:
        """The dead letters of the messages at these indexes of the completed group, and the group without these
        messages; None if no message remains."""
        messages = list(zip(_originals(fire), self.of(fire), strict=True))
        letters = [BadItem(fire, index, message, *bad[index]) for index, message in messages if index in bad]
        kept = [message for index, message in messages if index not in bad]
        if not kept:
            return letters, None
        return letters, self._group(fire, kept, tuple(sorted({*fire.removed, *bad})))

    def rejections(self, fire: Fire, error: Exception) -> dict[int, Rejected] | None:
        """The reasons in a BadItems error, by index in the completed group. None for any other error, and for indexes
        that the group does not have."""
        if not isinstance(error, BadItems) or not error.reasons or not self.of(fire):
            return None
        original = dict(enumerate(_originals(fire)))
        words = error.words if isinstance(error, Misfits) else {}
        return (
            {original[index]: Rejected(why, words.get(index, BAD_ITEM)) for index, why in error.reasons.items()}
            if error.reasons.keys() <= original.keys()
            else None
        )

    def probe(self, fire: Fire, error: Exception, alone: Callable[[Fire], object], outage: IsOutage) -> Exception:
        """Call `alone` with each message as a group of its own. Returns BadItems with the messages that fail. If all or
        none fail, returns `error`. In an outage, returns the error of the outage."""
        messages, reasons = self.of(fire), dict[int, str]()
        for index, message in enumerate(messages if len(messages) > 1 else ()):
            try:
                alone(self._group(fire, [message], fire.removed))
            except (Fenced, failpoints.Failpoint):
                raise
            except Exception as each:
                if outage(each):
                    return each
                reason = each.reasons.get(0) if isinstance(each, BadItems) else None
                raised = cause(each)
                reasons[index] = reason or raised.placed(f"the handler raised {raised.text}")
        return BadItems(reasons) if 0 < len(reasons) < len(messages) else error

    def _group(self, fire: Fire, messages: Sequence[bytes], removed: tuple[int, ...]) -> Fire:
        rule, plan = self._rule, self._rule.plan
        state: GroupState = [0, fire.first, fire.last, fire.opened, None, fire.trace, 0, *plan.blank]
        bags = plan.empty_bags()
        with self._one_at_a_time:
            for offset, value in enumerate(messages):
                read = rule.reader.read(KeptRecord(("", 0, 0), fire.key, value, [], (0, 0)))
                state[COUNT] += 1
                for add in plan.adders:
                    add(state, read)
                for bag, kind in zip(bags, plan.bags, strict=True):
                    item = kind.item(read, value, offset)
                    if item is not None:
                        kind.form.put(bag, item)
                for fold in plan.folds:
                    state[fold.slot] = apply(fold, state, rule.reader.message(value))
            return replace(fire, count=len(messages), values=rule.values(state, bags), removed=removed)


def _originals(fire: Fire) -> list[int]:
    """The indexes that the remaining messages had in the completed group."""
    return [index for index in range(fire.count + len(fire.removed)) if index not in fire.removed]
