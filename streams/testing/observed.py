"""The outputs and counts that may explain why an expected output is missing, a line for each."""

from collections.abc import Iterator, Sequence
from itertools import chain, groupby

from sluicegate.streams.agent import Agent
from sluicegate.streams.contracts.headers import (
    DEAD_AGENT,
    DEAD_CLAUSE,
    DEAD_ERROR,
    DEAD_OFFSET,
    DEAD_PARTITION,
    DEAD_TOPIC,
    DEAD_WHERE,
    STATE,
)
from sluicegate.streams.operations.answering import RecordClauses
from sluicegate.streams.testing.driver import TestDriver
from sluicegate.streams.testing.group import Group
from sluicegate.streams.testing.log import LogRecord
from sluicegate.streams.testing.matching import output_text, value_text
from sluicegate.streams.testing.outputs import ReadOutput, text_of
from sluicegate.streams.topic_names import matching, reads
from sluicegate.streams.units import spoken_duration
from sluicegate.streams.wording import counted

MOST = 3  # dead letters of different reasons, outputs of a topic, groups of an agent
COUNTED = {
    "records_skipped": "skipped {} (on_null or on_missing: skip)",
    "records_duplicate": "dropped {} as duplicates (dedupe)",
    "records_past_window": "left out {}, too late: the window had closed",
    "records_partly_late": "counted {} only in the windows that were still open",
    "records_rate_limited": "gave {} to no handler (rate_limit)",
    "legs_late": "received {} of a leg too late",
    "records_passed_over": "passed over {}, which a `dead retry` sent for another agent",
}
"""What an agent did with a number of records, by metric. `where` is told with its records, and `fires` with reasons."""


def observed(driver: TestDriver, topic: str, unmatched: Sequence[ReadOutput]) -> tuple[str, ...]:
    """The lines that may explain the missing output. `topic` is the topic of the expected output; empty: the test
    failed elsewhere. `unmatched` are the outputs of other topics that no step has expected, in their order. The
    internal topic of a correlation and time marks are no outputs of the file."""
    letters = [output for output in unmatched if output.topic in driver.dead_letter_topics]
    internal = {
        *driver.dead_letter_topics,
        *(to.topic for agent in driver.app.agents if agent.leg for to in agent.outputs),
    }
    others = [output for output in unmatched if output.topic not in internal and STATE not in output.headers]
    chosen = _before(driver.app.agents, topic) if topic else driver.app.agents
    agents = chain.from_iterable(_of_agent(driver, agent) for agent in chosen)
    return (*_letters(letters), *_outputs(others), *agents)


def _before(agents: Sequence[Agent], topic: str) -> list[Agent]:
    """The agents whose outputs may lead to the topic, in the order of the file. A handler may send to any topic."""
    wanted, chosen = {topic}, set[str]()
    while more := [agent for agent in agents if agent.name not in chosen and _writes(agent, wanted)]:
        chosen.update(agent.name for agent in more)
        wanted.update(chain.from_iterable(agent.topics for agent in more))
    return [agent for agent in agents if agent.name in chosen]


def _writes(agent: Agent, topics: set[str]) -> bool:
    named = {*(to.topic for to in agent.outputs), agent.dead_letters, agent.history}
    return agent.handler is not None or any(reads(topics, name) for name in named)


def _letters(letters: Sequence[ReadOutput]) -> Iterator[str]:
    """Dead letters with the same reason and error share one line."""
    causes: dict[tuple[str, str, str, str], list[ReadOutput]] = {}
    for letter in letters:
        causes.setdefault((letter.topic, *_cause(letter)), []).append(letter)
    for (topic, agent, reason, error), same in list(causes.items())[:MOST]:
        of, number, offset = (_header(same[0], name) for name in (DEAD_TOPIC, DEAD_PARTITION, DEAD_OFFSET))
        first = f"{'' if len(same) == 1 else 'the first '}at {of}/{number} offset {offset}"
        yield f"agent {agent}: {counted(len(same), 'dead letter')} on {topic}, {reason}: {error} ({first})"
    if len(causes) > MOST:
        yield f"dead letters of {counted(len(causes) - MOST, 'other reason')}"


def _cause(letter: ReadOutput) -> tuple[str, str, str]:
    """Agent, reason and error. For an expression that failed, the error includes the clause."""
    names = DEAD_AGENT, DEAD_CLAUSE, DEAD_ERROR, DEAD_WHERE
    agent, clause, error, where = (_header(letter, name) for name in names)
    return agent, str(letter.reason), f"{clause + ': ' if clause else ''}{error}{' at ' + where if where else ''}"


def _header(letter: ReadOutput, name: str) -> str:
    value = letter.headers.get(name)
    return value if isinstance(value, str) else ""


def _outputs(outputs: Sequence[ReadOutput]) -> Iterator[str]:
    for topic, of_topic in groupby(sorted(outputs, key=lambda output: output.topic), lambda output: output.topic):
        came = list(of_topic)
        some = "; ".join(map(output_text, came[:MOST])) + ("; ..." if len(came) > MOST else "")
        yield f"{counted(len(came), 'output')} on {topic} that no step expects: {some}"


def _of_agent(driver: TestDriver, agent: Agent) -> Iterator[str]:
    counts = driver.counts(agent.name)
    name = agent.rekeys or agent.name
    if agent.where and (omitted := _left_out(driver, agent)):
        first = f"key {_text(omitted[0].k)}, value {_text(omitted[0].v)}"
        amount = counted(len(omitted), "record")
        yield f"agent {name}: `where` ({agent.where}) left out {amount}: {first}{_more(omitted)}"
    for (metric, labels), number in counts.items():
        if metric == "expressions" and labels[0] != "where" and labels[1] == "false":
            yield f"agent {name}: `{labels[0]}` was false {counted(int(number), 'time')}"
        elif metric in COUNTED and number:
            yield f"agent {name}: {COUNTED[metric].format(counted(int(number), 'record'))}"
        elif metric == "fires" and agent.handler is not None:
            yield f"agent {name}: its handler got {counted(int(number), 'group')} that ended by {labels[0]}"
        elif metric == "groups_discarded":
            yield f"agent {name}: ended {counted(int(number), 'group')} without a result (on_timeout: discard)"
    if agent.grouped and agent.scope == "partition" and (groups := driver.groups(agent.name)):
        some = "; ".join(map(_group, groups[:MOST])) + ("; ..." if len(groups) > MOST else "")
        yield f"agent {name}: {counted(len(groups), 'group')} still open: {some}"


def _left_out(driver: TestDriver, agent: Agent) -> list[LogRecord]:
    """The number of records for which `where` is false. It is evaluated again, because after a crash the engine counts
    some records twice."""
    clauses = RecordClauses(agent)
    number = clauses.names.index("where")
    inputs = matching(agent.topics, driver.log.topics)
    records = chain.from_iterable(driver.log.order.get(topic, []) for topic in inputs)
    return [record for record in records if clauses.answer(number, record).value is False]


def _more(records: Sequence[LogRecord]) -> str:
    return "" if len(records) == 1 else f", and {len(records) - 1} more"


def _group(group: Group) -> str:
    window = "" if group.window is None else f", window {' to '.join(group.window)}"
    due = "" if group.due_in is None else f", ends in {spoken_duration(max(0.0, round(group.due_in, 3)))}"
    return f"key {_text(group.key)}, {counted(group.count, 'record')}{window}{due}"


def _text(value: str | bytes | None) -> str:
    text = text_of(value) if isinstance(value, bytes) else value
    return text if isinstance(text, str) else value_text(text)
