"""`sluicegate check`: the problems and the meaning of a file; with `--connect` also whether its systems are ready."""

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluicegate.streams.agent import App
from sluicegate.streams.cli.checking.sample import in_words, samples
from sluicegate.streams.cli.opening import extras
from sluicegate.streams.cli.terminal.outcome import DONE, SYSTEM, USAGE, complain
from sluicegate.streams.cli.terminal.output import print_json, print_text
from sluicegate.streams.cli.terminal.parameters import AsJson, FileArgument
from sluicegate.streams.errors import ConfigurationError, SystemNotReady
from sluicegate.streams.wording import counted

if TYPE_CHECKING:
    from sluicegate.streams.cli.terminal.finding import SystemFinding
    from sluicegate.streams.config import Loaded, Problem


SampleOption = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="With --connect: show what expressions answer for the newest N records."),
]


def check(
    file: FileArgument,
    connect: Annotated[bool, typer.Option("--connect", help="Ask store and brokers whether they are ready.")] = False,
    sample: SampleOption = None,
    json: AsJson = False,
) -> int:
    """Check the file, and print its problems, its risks and its meaning."""
    from sluicegate.streams.config import load

    if sample is not None and not connect:
        raise ConfigurationError("--sample reads records from the brokers: write --connect, too")
    loaded = _with_telemetry(file, _with_clients(file, load(file, os.environ, tolerant=not connect)))
    findings: list[SystemFinding] = []
    answers: list[dict[str, Any]] | None = None
    if connect and loaded.app is not None:
        from sluicegate.streams.cli.checking.systems import inspect

        findings = inspect(loaded.app)
        if sample is not None:
            answers = _sampled(loaded.app, file, sample, findings)
    code = USAGE if loaded.problems else DONE if all(f.ok for f in findings) else SYSTEM
    if json:
        more = {} if answers is None else {"samples": answers}
        print_json({**_document(loaded, findings if connect else None, code), **more})
    else:
        _in_words(loaded, findings)
        print_text(*in_words(answers or ()))
    return code


def _sampled(app: App, file: str, most: int, findings: "list[SystemFinding]") -> list[dict[str, Any]]:
    """The answers of the expressions for the newest records. Adds missing topics to `findings`."""
    from sluicegate.streams.cli.terminal.finding import SystemFinding

    if not any(finding.ok for finding in findings if finding.system == "kafka"):
        return []
    try:
        return samples(app, file, most)
    except SystemNotReady as error:
        findings.append(SystemFinding("kafka", False, f"the records of --sample cannot be read: {error}"))
        return []


def _with_clients(file: str, loaded: "Loaded") -> "Loaded":
    """Adds a problem for the first system whose client cannot be made, because `run` would end with it."""
    app = loaded.app
    if app is None or loaded.unset:
        return loaded
    from sluicegate.streams.config import Problem

    for section, make in extras.CLIENTS.items():
        try:
            make(app)
        except ConfigurationError as error:
            what, _, hint = str(error).partition(": ")
            problem = Problem(file, *loaded.sections[section], section, what, hint or "correct the URL")
            return replace(loaded, app=None, problems=(problem,))
    return loaded


def _with_telemetry(file: str, loaded: "Loaded") -> "Loaded":
    """Adds a problem when the spans or metrics of OpenTelemetry's variables cannot be sent, because `run` would end
    with it."""
    from sluicegate.streams.config import Problem
    from sluicegate.streams.observe import otel_metrics, tracing

    try:
        tracing.requested_exporters(os.environ)
        otel_metrics.requested_exporters(os.environ)
    except ConfigurationError as error:
        what, _, hint = str(error).rpartition(": ")
        problem = Problem(file, 1, 1, "environment", what or hint, hint if what else "correct the variables OTEL_*")
        return replace(loaded, app=None, problems=(*loaded.problems, problem))
    return loaded


def _document(loaded: "Loaded", findings: "list[SystemFinding] | None", code: int) -> dict[str, Any]:
    from json import loads

    agents = loaded.app.agents if loaded.app and not loaded.unset else ()
    schemas = {
        f"{agent.name}/{to.topic}" if agent.routes else agent.name: loads(to.schema.schema)
        for agent in agents
        for to in agent.outputs
        if to.schema and to.format == "avro"
    }
    return {
        "ok": code == DONE,
        "problems": [_shown(p) for p in loaded.problems],
        "warnings": [_shown(p) for p in _warnings(loaded)],
        **({"schemas": schemas} if schemas else {}),
        **({} if findings is None else {"systems": [finding._asdict() for finding in findings]}),
    }


def _shown(problem: "Problem") -> dict[str, Any]:
    return {name: getattr(problem, name) for name in ("file", "line", "key", "message", "hint")}


def _warnings(loaded: "Loaded") -> "tuple[Problem, ...]":
    """Unset variables are warnings unless they are problems."""
    from sluicegate.streams.config.text.problems import sort

    return sort((*loaded.warnings, *(p for p in loaded.unset if p not in loaded.problems)))


def _in_words(loaded: "Loaded", findings: "list[SystemFinding]") -> None:
    from sluicegate.streams.config import meaning
    from sluicegate.streams.config.words import changing, delivering, dispatching

    for problem in loaded.problems:
        complain(str(problem))
    for warning in _warnings(loaded):
        complain(warning.as_warning())
    for agent in loaded.app.agents if loaded.app else ():
        vague = agent.name in loaded.vague
        meanings = ["has variables that are not set: what it does depends on them"] if vague else meaning(agent)
        print_text(f"{agent.name}:", *(f"  {meaning}" for meaning in meanings))
    if loaded.app is not None and (means := changing(loaded.app)):
        print_text("when the file changes:", f"  {means}")
    if loaded.app is not None and (often := delivering(loaded.app)):
        print_text("delivery:", f"  {often}")
    if loaded.app is not None and (sends := dispatching(loaded.app)):
        print_text("dispatcher:", *(f"  {send}" for send in sends))
    for finding in findings:
        line = f"{finding.system}: {finding.text}{'; ' + finding.hint if finding.hint else ''}"
        print_text(line) if finding.ok else complain(line)
    if loaded.problems:
        complain(counted(len(loaded.problems), "problem"))
