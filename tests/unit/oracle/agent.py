"""An agent by plain Python: all clauses in their order, record by record."""

from typing import Any

from tests.unit.oracle.groups import Counted, Groups, Result
from tests.unit.oracle.reading import Reader, Sent
from tests.unit.oracle.results import Output, encoded, outputs, routed
from tests.unit.oracle.windows import Windows, windows_of
from tests.unit.oracle.words import NoAnswer, Refusal


class Agent:
    """`outputs` are the messages that it sent."""

    def __init__(self, agent: dict[str, Any]) -> None:
        self.agent, self.reader = agent, Reader(agent)
        self.outputs: list[Output] = []
        rule = agent.get("aggregate")
        failing = self.reader.failed()
        self.groups = None
        if rule is not None:
            self.groups = windows_of(rule, failing) if "window" in rule else Groups(rule, failing)

    def take(self, sent: Sent) -> None:
        """One record."""
        if isinstance(self.groups, Windows):
            self.groups.seen = sent.now
        try:
            self.judge(sent)
        except Refusal as refusal:
            if refusal.reason is not None:
                self.outputs.append(Output("dead", None, None, refusal.reason, sent.offset))
        self.drain()

    def judge(self, sent: Sent) -> None:
        """Raises Refusal."""
        if not self.reader.takes(sent):
            self.pass_over(sent)
            return
        identity = self.reader.identity(sent)
        if identity is not None and self.reader.known(identity, sent.now):
            return
        if self.groups is None:
            self.forward(sent)
        else:
            key, row = self.reader.fields(sent)
            self.groups.take(key, Counted(sent, row, self.reader.document(sent)))
        if identity is not None:
            self.reader.note(identity, sent.now)

    def pass_over(self, sent: Sent) -> None:
        """The record is left out by `where`."""
        if isinstance(self.groups, Windows):
            document = self.reader.document(sent)
            try:
                time = self.groups.time(document if isinstance(document, dict) else {}, sent.at)
            except Refusal:
                return
            self.groups.left_out(time, sent.now)

    def forward(self, sent: Sent) -> None:
        """Raises Refusal."""
        to = self.agent["to"]
        routes = to if isinstance(to, list) else [to]
        row: dict[str, Any] = {}
        if any("where" in route or "select" in route for route in routes if route != "drop"):
            fields = self.reader.row(self.reader.document(sent))
            row = {name: value for name, value in fields.items() if value is not None}
        elif (self.agent.get("dedupe") or {}).get("id") in ("e", "t"):
            self.reader.document(sent)
        try:
            messages = routed(to, row, sent.value)
        except NoAnswer:
            raise self.reader.failed() from None
        if not messages and routes[-1] != "drop":
            raise Refusal("unrouted")
        self.outputs += [Output(topic, sent.key, decoded(value)) for topic, value in messages]

    def advance(self, until: float) -> None:
        """The owner's clock goes to this time, from deadline to deadline."""
        while self.groups is not None and (due := self.groups.next_due()) <= until:
            self.groups.look(due)
            self.drain()

    def drain(self) -> None:
        if self.groups is not None:
            ended: list[Result] = self.groups.results
            for result in ended:
                self.outputs += outputs(self.agent, result)
            ended.clear()


def decoded(value: Any) -> Any:
    """The bytes of a record as they are, a document as JSON has it."""
    return value if isinstance(value, bytes) or value is None else encoded(value)
