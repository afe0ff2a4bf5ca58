"""`sluicegate eval`: the answer of each clause of an agent for one record, or for one result."""

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluicegate.streams.agent import Agent, App
from sluicegate.streams.cli.opening.changing import AgentName
from sluicegate.streams.cli.opening.files import agent_of, loaded
from sluicegate.streams.cli.terminal.outcome import DONE
from sluicegate.streams.cli.terminal.output import print_json, print_text
from sluicegate.streams.cli.terminal.parameters import AsJson, FileArgument
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.topic_names import in_words, reads

if TYPE_CHECKING:
    from sluicegate.streams.contracts.record import Header, Record
    from sluicegate.streams.operations.answering import ClauseAnswer, Verdict
    from sluicegate.streams.reading.proof import HeaderProof

AtOption = Annotated[
    str | None, typer.Option(metavar="TOPIC/PARTITION/OFFSET", help="Read this record of the agent's input.")
]
ValueOption = Annotated[
    str | None, typer.Option(metavar="JSON", help="The value of a record that is in no topic; its time is now.")
]
KeyOption = Annotated[str | None, typer.Option(metavar="K", help="The key of that record.")]
HeaderOption = Annotated[list[str] | None, typer.Option(metavar="N=V", help="A header of that record; repeatable.")]
ResultOption = Annotated[
    str | None, typer.Option(metavar="JSON", help="A result document, for `having` and what is under `to`.")
]
ShowCodeOption = Annotated[
    bool, typer.Option("--show-code", help="Print the Python code that is made of the agent's rule instead.")
]


def evaluate(
    file: FileArgument,
    name: AgentName,
    at: AtOption = None,
    value: ValueOption = None,
    key: KeyOption = None,
    header: HeaderOption = None,
    result: ResultOption = None,
    show_code: ShowCodeOption = False,
    json: AsJson = False,
) -> int:
    """Show the answer of each expression of an agent for one record or one result, with values. Reads only."""
    if show_code:
        return _show_code(agent_of(loaded(file), name), json)
    if (at is None) == (value is None) and (at is not None or result is None):
        raise ConfigurationError("give the record with --at or with --value, or a result with --result")
    if value is None and (key is not None or header):
        raise ConfigurationError("--key and --header belong to --value")
    app = loaded(file)
    agent = agent_of(app, name)
    document: dict[str, Any] = {"agent": name, "record": None, "result": None}
    if at is not None:
        reader, record = _at(app, agent, at)
        document["record"] = _of_record(app, reader, record, _proof(app, reader, record))
    elif value is not None:
        document["record"] = _of_record(app, *_reader_and_record(app, agent, value, key, header or []))
    document["result"] = _of_result(agent, result)
    print_json(document) if json else _print(document, at or "the record")
    return DONE


def _show_code(agent: Agent, json: bool) -> int:
    """Prints the compiled loop; without a loop, the function of `where`."""
    from sluicegate.streams import formats
    from sluicegate.streams.aggregation.rule import Rule
    from sluicegate.streams.windows.opening import code_of

    code = code_of(Rule(agent, formats.reads(agent)))
    print_json({"agent": agent.name, "code": code}) if json else print(code, end="")
    return DONE


def _at(app: App, agent: Agent, at: str) -> "tuple[Agent, Record]":
    from sluicegate.streams.cli.letters import BrokerTopics

    topic, number, offset = _place(at)
    reader = _reader(app, agent, topic)
    topics, place = BrokerTopics(app), (topic, number)
    if place not in topics.places([topic]):
        raise ConfigurationError(f"--at {at}: the brokers have no partition {topic}/{number}")
    low, high = topics.bounds([place])[place]
    if not low <= offset < high:
        holds = f"holds offsets {low} to {high - 1}" if low < high else "is empty"
        raise ConfigurationError(f"--at {at}: the partition {holds}")
    for record in topics.read({place: (offset, offset + 1)}):
        return reader, record
    raise ConfigurationError(f"--at {at}: there is no record: it was compacted, or its transaction was aborted")


def _place(at: str) -> tuple[str, int, int]:
    match at.rsplit("/", 2):
        case [topic, number, offset] if topic and number.isdecimal() and offset.isdecimal():
            return topic, int(number), int(offset)
    raise ConfigurationError(f"--at {at}: write TOPIC/PARTITION/OFFSET, such as orders/0/17")


def _reader(app: App, agent: Agent, topic: str | None) -> Agent:
    """The agent that reads the topic (None: the topic of the file's `from`). With `repartition`, the agent is two
    agents."""
    halves = [*(half for half in app.agents if half.rekeys == agent.name), agent]
    for half in halves:
        if topic is None or reads(half.topics, topic):
            return half
    names = ", ".join(in_words(name) for half in halves for name in half.topics)
    raise ConfigurationError(f"agent {agent.name} does not read {topic}; it reads {names}")


def _reader_and_record(
    app: App, agent: Agent, value: str, key: str | None, header: list[str]
) -> "tuple[Agent, Record]":
    from sluicegate.schemas.codecs import Unwritable
    from sluicegate.streams.formats import record_value
    from sluicegate.streams.testing.log import LogRecord

    reader = _reader(app, agent, None)
    plain, headers = reader.format in ("json", "raw"), [*map(_header, header)]
    try:
        written = value.encode() if plain else record_value(reader, _json("--value", value), headers)
    except Unwritable as error:
        raise ConfigurationError(f"--value cannot be written as {reader.format}: {error}") from error
    name = None if key is None else key.encode()
    return reader, LogRecord(reader.topics[0], 0, 0, name, written, headers, int(time.time() * 1000))


def _header(text: str) -> "Header":
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ConfigurationError(f"--header {text}: write NAME=VALUE")
    return name, value.encode()


def _json(option: str, text: str) -> Any:
    from json import loads

    try:
        return loads(text)
    except ValueError as error:
        raise ConfigurationError(f"{option} is not JSON: {error}") from None
    except RecursionError:
        raise ConfigurationError(f"{option} is nested too deep to be decoded") from None


def _proof(app: App, agent: Agent, record: "Record") -> "HeaderProof":
    from sluicegate.streams.cli.opening.proofs import StoredProof
    from sluicegate.streams.contracts.values import Partition

    return StoredProof(app, Partition(app.name, agent.name, record.topic(), record.partition()))


def _of_record(app: App, agent: Agent, record: "Record", proof: "HeaderProof | None" = None) -> dict[str, Any]:
    from sluicegate.streams.operations.answering import RecordClauses, believed, record_verdict
    from sluicegate.streams.operations.sampling import implausible
    from sluicegate.streams.reading.proof import HeaderProof

    proof = HeaderProof() if proof is None else proof
    clauses, answers, read = RecordClauses(agent), [], believed(agent, record, proof)
    for number in range(len(clauses.names)):
        answer = clauses.answer(number, read)
        why = implausible(answer, read)
        answers.append(_answer(answer) | ({} if why is None else {"warning": why}))
    return {"clauses": answers, **_verdict(record_verdict(app.name, agent, record, proof))}


def _of_result(agent: Agent, result: str | None) -> dict[str, Any] | None:
    """The answers for a result. None: no clause uses a result and none is given."""
    from sluicegate.streams.operations.answering import result_answers, result_clauses, result_verdict

    if result is None:
        names = result_clauses(agent)
        return {"clauses": [{"clause": name} for name in names], "becomes": None} if names else None
    if not agent.grouped:
        raise ConfigurationError(f"agent {agent.name} has no results: only an agent with `aggregate` has")
    document = _json("--result", result)
    if not isinstance(document, dict):
        raise ConfigurationError("--result is not a JSON object")
    answers = [_answer(answer) for answer in result_answers(agent, document)]
    return {"clauses": answers, **_verdict(result_verdict(agent, document))}


def _answer(answer: "ClauseAnswer") -> dict[str, Any]:
    if answer.problem:
        return {"clause": answer.clause, "problem": answer.problem, "reason": answer.reason, "failed": answer.failed}
    return {"clause": answer.clause, "answer": _shown(answer.value)}


def _shown(value: Any) -> Any:
    """The value for output. A key is bytes."""
    from sluicegate.schemas.codecs import base64_text

    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"base64:{base64_text(value)}"


def _verdict(verdict: "Verdict") -> dict[str, Any]:
    document: dict[str, Any] = {"becomes": verdict.outcome}
    document |= {name: text for name in ("reason", "error", "clause") if (text := getattr(verdict, name))}
    if verdict.outputs:
        document["outputs"] = [_output(topic, value) for topic, value in verdict.outputs]
    return document


def _output(topic: str, value: Any) -> dict[str, Any]:
    """The value of an output. A selected value was encoded for the topic; if it is JSON, it is shown as a document."""
    from json import loads

    if value is None:
        return {"topic": topic, "unchanged": True}
    try:
        return {"topic": topic, "value": loads(value) if isinstance(value, bytes) else value}
    except ValueError:
        return {"topic": topic, "value": _shown(value)}


def _print(document: dict[str, Any], record: str) -> None:
    for title, part in ((record, document["record"]), ("the result", document["result"])):
        if part is None:
            continue
        print_text(f"{title}:" if part["becomes"] is None else f"{title}: {_in_words(part)}")
        for clause in part["clauses"]:
            print_text(f"  {clause['clause']}: {_line(clause)}")
        for output in part.get("outputs", ()):
            print_text(f"  -> {output['topic']}: {_text(output['value']) if 'value' in output else 'unchanged'}")


def _line(answer: dict[str, Any]) -> str:
    if "answer" in answer:
        return _text(answer["answer"]) + (f" ({answer['warning']})" if "warning" in answer else "")
    if "problem" not in answer:
        return "not evaluated: it sees results; add --result"
    other = f"{answer['failed']}: " if answer["failed"] not in ("", answer["clause"]) else ""
    return f"failed ({answer['reason']}): {other}{answer['problem']}"


def _text(value: Any) -> str:
    from json import dumps

    return dumps(value, ensure_ascii=False)


def _in_words(part: dict[str, Any]) -> str:
    clause = f"{part['clause']}: " if part.get("clause") else ""
    match part["becomes"]:
        case "left-out":
            return f"left out by {part['clause']}"
        case "dead-letter":
            return f"a dead letter, {part['reason']} ({clause}{part['error']})"
        case "halted":
            return f"the partition halts: {part['error']}"
        case "passed-over":
            return "passed over: `sluicegate dead retry` wrote it for another agent"
        case outcome:
            return str(outcome)
