"""`sluicegate check --connect --sample N`: the answers of the file's expressions for the newest records."""

import shlex
from collections.abc import Iterable, Iterator
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from sluicegate.streams.agent import Agent, App
from sluicegate.streams.wording import counted

if TYPE_CHECKING:
    from sluicegate.streams.cli.letters import BrokerTopics
    from sluicegate.streams.operations.sampling import ClauseSample

REASONS = 3  # problems that are shown for one clause


def samples(app: App, file: str, most: int) -> list[dict[str, Any]]:
    """For each agent with expressions: the number of records, and the counts of each clause. Raises SystemNotReady, and
    ConfigurationError for the embedded broker."""
    from sluicegate.streams.cli.letters import BrokerTopics

    topics = BrokerTopics(app)
    return [
        {"agent": agent.name, **_of_records(app, topics, reader, file, most), "not_sampled": _not_sampled(agent)}
        for reader, agent in _agents(app)
        if _has_answers(reader) or _not_sampled(agent)
    ]


def _not_sampled(agent: Agent) -> list[str]:
    """The clauses that use a group or a result."""
    from sluicegate.streams.operations.answering import result_clauses

    rule = agent.aggregation
    ends = "until" if rule is None or rule.correlation is None else "complete"
    return [*([ends] if rule is not None and isinstance(rule.until, str) else []), *result_clauses(agent)]


def _agents(app: App) -> Iterator[tuple[Agent, Agent]]:
    """The agents, each after its re-keying agent. With `repartition`, that one reads the topics of `from`."""
    rekeying = {agent.rekeys: agent for agent in app.agents if agent.rekeys}
    return ((rekeying.get(agent.name, agent), agent) for agent in app.agents if not agent.rekeys)


def _has_answers(agent: Agent) -> bool:
    """Whether an expression of the agent, or its event time, applies to records."""
    from sluicegate.streams.windows.units import timed_by

    asked = (to.where or any(field.expression for field in to.select) for to in agent.outputs if agent.forwards)
    timed = timed_by(agent)
    return bool(agent.where or agent.let or any(asked) or (timed is not None and not timed.origins))


def _of_records(app: App, topics: "BrokerTopics", agent: Agent, file: str, most: int) -> dict[str, Any]:
    from sluicegate.streams.cli.opening.proofs import StoredProof
    from sluicegate.streams.operations.sampling import newest, sampled

    if not _has_answers(agent):
        return {"records": 0, "clauses": []}
    parts = newest(topics.bounds(topics.places(agent.topics)), most)
    number, clauses = sampled(app.name, agent, topics.read(parts), cache(partial(StoredProof, app)))
    name = agent.rekeys or agent.name
    return {"records": number, "clauses": [_document(clause, file, name) for clause in clauses]}


def _document(sample: "ClauseSample", file: str, agent: str) -> dict[str, Any]:
    document: dict[str, Any] = {"clause": sample.clause, **sample.outcomes}
    if sample.example is not None:
        place = "/".join(map(str, sample.example))
        document["problems"] = dict(sample.problems.most_common())
        document["example"] = place
        document["command"] = shlex.join(["sluicegate", "eval", file, agent, "--at", place])
    return document


def in_words(samples: Iterable[dict[str, Any]]) -> Iterator[str]:
    """The lines of output."""
    for sample in samples:
        number = f" the newest {counted(sample['records'], 'record')}" if sample["clauses"] else ""
        yield f"{sample['agent']}:{number}"
        for clause in sample["clauses"]:
            yield f"  {clause['clause']}: {_counts(clause)}"
            if "command" in clause:
                yield f"    the first failure: {clause['command']}"
        if sample["not_sampled"]:
            yield f"  {', '.join(sample['not_sampled'])}: not sampled, because they see groups or results"


def _counts(clause: dict[str, Any]) -> str:
    from sluicegate.streams.operations.sampling import is_condition

    always = ("true", "false") if is_condition(clause["clause"]) else ("computed",)
    counts = [f"{clause.get(name, 0)} {name}" for name in always]
    counts += [f"{clause[name]} {name}" for name in ("missing", "failed") if name in clause]
    return ", ".join(counts) + _problems(clause.get("problems", {}))


def _problems(problems: dict[str, int]) -> str:
    if len(problems) < 2:
        return "".join(f" ({text})" for text in problems)
    shown = [f"{number} {text}" for text, number in list(problems.items())[:REASONS]]
    more = [f"{len(problems) - REASONS} more reasons"] if len(problems) > REASONS else []
    return f" ({'; '.join([*shown, *more])})"
