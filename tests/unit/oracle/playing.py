"""A case on the engine and by plain Python, and what they sent."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from sluicegate.streams.testing.driver import TestDriver
from sluicegate.streams.testing.outputs import ReadOutput
from tests.unit.oracle.agent import Agent
from tests.unit.oracle.cases import START, Case, Record
from tests.unit.oracle.correlations import Correlation
from tests.unit.oracle.reading import Sent
from tests.unit.oracle.results import Output

TOPICS = ("out", "other", "third", "dead")
CLOCK = ("opened_at", "closed_at")
"""Fields of a result that say nothing of its records."""


def on_engine(case: Case, file: Path) -> dict[str, list[str]]:
    """What the product sends, by topic. Raises ConfigurationError for a file that `check` refuses."""
    file.write_text(json.dumps(case.file()))
    with TestDriver(file, partitions=1) as driver:
        for step in case.steps:
            if isinstance(step, int):
                driver.advance(step)
                continue
            for record in step:
                topic = {"a": "ta", "b": "tb"}.get(record.leg, "in")
                driver.log.count(topic)
                headers = None if record.header is None else [("e", record.header.encode())]
                key = None if record.key is None else record.key.encode()
                driver.log.append(topic, 0, key, record.value, headers, record.at)
            driver._workers.settle()  # what was appended comes at once
        assert not driver.troubles(), driver.troubles()
        written = [output for topic in TOPICS if topic in driver.log.topics for output in driver.read(topic)]
    return sorted_by_topic([_as_output(output, case.agent) for output in written])


def by_plain_python(case: Case) -> dict[str, list[str]]:
    """What must be sent, by topic."""
    if "correlate" in case.agent:
        return sorted_by_topic(_correlated(case))
    agent, now, offset = Agent(case.agent), float(START), 0
    for step in case.steps:
        if isinstance(step, int):
            now += step
            agent.advance(now)
            continue
        for record in step:
            agent.take(_sent(record, offset, now))
            offset += 1
        agent.advance(now)
    return sorted_by_topic(agent.outputs)


def _correlated(case: Case) -> list[Output]:
    correlation, now, offsets = Correlation(case.agent), float(START), {"a": 0, "b": 0}
    for step in case.steps:
        if isinstance(step, int):
            now += step
            correlation.advance(now)
            continue
        for record in step:
            correlation.take(record.leg, _sent(record, offsets[record.leg], now))
            offsets[record.leg] += 1
    return correlation.outputs


def _sent(record: Record, offset: int, now: float) -> Sent:
    return Sent(offset, record.key, record.value, record.header, record.at, now)


def sorted_by_topic(outputs: list[Output]) -> dict[str, list[str]]:
    """The messages of each topic as text: those of a key in their order, keys sorted; dead letters sorted."""
    made: dict[str, list[str]] = {}
    for topic in TOPICS:
        own = [output for output in outputs if output.topic == topic]
        own.sort(key=(lambda item: str(item)) if topic == "dead" else (lambda item: str(item.key)))
        made[topic] = [_text(output) for output in own]
    return made


def _text(output: Output) -> str:
    return f"{output.key} {output.reason} {output.offset} {_shown(output.value)}"


def _shown(value: Any) -> str:
    if isinstance(value, bytes):
        return repr(value)
    return json.dumps(_plain(value), sort_keys=True)


def _plain(value: Any) -> Any:
    """Numbers that are equal look equal."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _as_output(written: ReadOutput, agent: dict[str, Any]) -> Output:
    key = None if written.key is None else str(written.key)
    if written.topic != "dead":
        if written.topic in _forwarded(agent):
            return Output(written.topic, key, written.raw)
        return Output(written.topic, key, {n: v for n, v in written.value.items() if n not in CLOCK})
    reason = str(written.headers["sluicegate-dead-reason"])
    if b'"opened_at"' in (written.raw or b""):  # a result, no record
        value = {n: v for n, v in json.loads(written.raw or b"{}").items() if n not in CLOCK}
        return Output("dead", key, value, reason)
    if "correlate" in agent and reason == "late":
        document = json.loads(written.raw or b"{}")
        return Output("dead", None, document if "v" in document else next(iter(document.values())), reason)
    return Output("dead", None, None, reason, int(str(written.headers["sluicegate-dead-offset"])))


def _forwarded(agent: dict[str, Any]) -> set[str]:
    """The topics to which values go byte for byte."""
    routes = agent["to"] if isinstance(agent["to"], list) else [agent["to"]]
    if "aggregate" in agent or "correlate" in agent:
        return set()
    return {route["topic"] for route in routes if route != "drop" and "select" not in route}


def difference(case: Case, file: Path) -> str:
    """Empty where both send the same."""
    expected, sent = by_plain_python(case), on_engine(case, file)
    lines = []
    for topic in TOPICS:
        if expected[topic] != sent[topic]:
            lines += [f"{topic}: must be sent", *expected[topic], f"{topic}: was sent", *sent[topic]]
    return "\n".join(lines)


def shrunk(case: Case, file: Path) -> Case:
    """The case without the steps, records and keys of the file that the difference does not need."""
    smaller = True
    while smaller:
        smaller = False
        for other in _smaller(case):
            try:
                differs = bool(difference(other, file))
            except Exception:  # a file that means nothing any more
                continue
            if differs:
                case, smaller = other, True
                break
    return case


def _smaller(case: Case) -> list[Case]:
    cases = [replace(case, steps=[*case.steps[:at], *case.steps[at + 1 :]]) for at in range(len(case.steps))]
    for at, step in enumerate(case.steps):
        for index in range(len(step) if isinstance(step, list) and len(step) > 1 else 0):
            fewer = [*step[:index], *step[index + 1 :]]  # type: ignore[index]
            cases.append(replace(case, steps=[*case.steps[:at], fewer, *case.steps[at + 1 :]]))
    for name in case.agent:
        if name not in ("from", "to", "aggregate", "correlate"):
            cases.append(replace(case, agent={key: value for key, value in case.agent.items() if key != name}))
    rule = case.agent.get("aggregate", {})
    for name in rule:
        if name not in ("compute", "window"):
            smaller = {key: value for key, value in rule.items() if key != name}
            cases.append(replace(case, agent={**case.agent, "aggregate": smaller}))
    return cases
