"""Corrections of messages that an agent's handler sent. The handler is called again, and its new messages are the
correction."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.events import BadItem, Event, Fire, Sent, Unhandled
from sluicegate.streams.contracts.ids import replayed_id
from sluicegate.streams.contracts.stores import OutputFacts
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.outbox.history import is_silent
from sluicegate.streams.shadow.corrections import Corrections
from sluicegate.streams.shadow.judge import GroupHandler
from sluicegate.streams.shadow.published import PublishedResult
from sluicegate.streams.shadow.witness import Codecs, Witness


class HandledCorrections(Corrections):
    """Same as Corrections, for the messages of `handle`. A correction replaces the messages that the handler sent for
    the groups of the history that share records with its group."""

    def __init__(
        self,
        rule: Agent,
        codecs: Codecs,
        witness: Witness,
        digest: str,
        number: int,
        into: str,
        facts: OutputFacts,
        handle: GroupHandler,
    ) -> None:
        super().__init__(rule, codecs, witness, digest, number, into, facts)
        self._handle, self._own = handle, {into, *(to.topic for to in rule.outputs)}
        for live in self._live.values():
            live.outputs = witness.published.sent.get(self._rows.fire_id(live.number), {})

    def _events(self, fire: Fire) -> Sequence[Event]:
        if is_silent(self._agent, fire):
            return ()
        return [decision for event in super()._events(fire) for decision in self._called(event)]

    def _called(self, event: Event) -> Iterator[Event]:
        if not isinstance(event, Fire):
            yield event
            return
        id = self._rows.fire_id(event.number)
        for decision in self._handle(event, replayed_id(id, self._number)):
            if isinstance(decision, Sent):
                yield replace(decision, fire=id, topic=self._topic(decision))
            elif isinstance(decision, Unhandled):
                raise ConfigurationError(
                    f"the handler gives up the group of records {event.first} to {event.last}: {decision.error}. "
                    "Nothing more was sent. Correct the handler, and run the same command again"
                )
            else:
                self.refused += isinstance(decision, BadItem)

    def _topic(self, sent: Sent) -> str:
        if sent.topic not in self._own:
            raise ConfigurationError(
                f"the handler sends to the topic {sent.topic}, which is not the `to` of its agent: only what it sends "
                "to `to` can be corrected. Nothing more was sent"
            )
        return self._into

    def _unreplaced(self) -> Iterator[PublishedResult]:
        return (live for live in super()._unreplaced() if live.outputs)
