"""`sluicegate test`: the tests of a file, without a broker and without waiting."""

import logging
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer

from sluicegate.streams.agent import App
from sluicegate.streams.cli.opening.files import app_of
from sluicegate.streams.cli.terminal.outcome import DONE, UNEXPECTED, debugging
from sluicegate.streams.cli.terminal.output import print_json
from sluicegate.streams.cli.terminal.parameters import AsJson, FileArgument
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.wording import printable

if TYPE_CHECKING:
    from sluicegate.streams.cases import Case
    from sluicegate.streams.testing.play import CaseVerdict, ShowProgress
    from sluicegate.streams.testing.tracebacks import TracebackLog

EVERY = 0.1  # seconds between two updates of the progress


def play_tests(
    file: FileArgument,
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Only these tests.")] = None,
    crash: Annotated[
        bool, typer.Option("--crash", help="Repeat each test for every place where the process can die.")
    ] = False,
    json: AsJson = False,
) -> int:
    """Play the tests of the file (`tests:`). The exit code is 1 if one fails."""
    from sluicegate.streams.cases import SetupFile
    from sluicegate.streams.testing.files import loaded
    from sluicegate.streams.testing.stores import on_sqlite, require_sqlalchemy

    file_ = loaded(file)
    app = app_of(file_)
    cases = _chosen(file, file_.cases, names or [])
    if any(on_sqlite(app, any(isinstance(step, SetupFile) for step in case.steps)) for case in cases):
        require_sqlalchemy()
    verdicts = []
    with _quiet() as log:
        for case in cases:
            verdict = _traced(_verdict(app, case, crash), log.taken())
            verdicts.append(replace(verdict, warnings=log.warnings()))
            if not json:
                print(_line(file, verdicts[-1], crash), flush=True)
    passed = sum(verdict.failure is None for verdict in verdicts)
    if json:
        print_json({"ok": passed == len(verdicts), "tests": [_document(file, verdict) for verdict in verdicts]})
    else:
        print(f"{passed} of {len(verdicts)} tests passed")
    return DONE if passed == len(verdicts) else UNEXPECTED


def _chosen(file: str, cases: "Sequence[Case]", names: Sequence[str]) -> "Sequence[Case]":
    from sluicegate.streams.hints import did_you_mean

    known = [case.name for case in cases]
    if not known:
        raise ConfigurationError(f"{file} holds no tests; write some under `tests:`")
    for name in names:
        if name not in known:
            raise ConfigurationError(f"{file} has no test {name!r}; {did_you_mean(name, known)}")
    return [case for case in cases if not names or case.name in names]


def _verdict(app: App, case: "Case", crash: bool) -> "CaseVerdict":
    from sluicegate.streams.testing.play import CaseVerdict, play, play_with_crashes

    if not crash:
        return CaseVerdict(case, play(app, case))
    with _progress(case.name) as progress:
        return play_with_crashes(app, case, progress)


def _traced(verdict: "CaseVerdict", trace: tuple[str, ...]) -> "CaseVerdict":
    """The verdict; for a failure with the errors that its handlers raised."""
    failure = verdict.failure
    return verdict if failure is None else replace(verdict, failure=replace(failure, trace=failure.trace or trace))


def _line(file: str, verdict: "CaseVerdict", crash: bool) -> str:
    warnings = [f"warning: {text}" for text in verdict.warnings]
    survived = f" ({verdict.deaths} deaths and {verdict.lost} unanswered requests survived)" if crash else ""
    if verdict.failure is None:
        return "\n        ".join([f"ok      {verdict.case.name}{survived}", *warnings])
    where = "" if verdict.place is None else f" with {verdict.place}{survived}"
    failed = f"FAILED  {verdict.case.name}{where}: {file}:{verdict.failure.line}: {verdict.failure.text}"
    return "\n        ".join([failed, *warnings, *verdict.failure.observed, *verdict.failure.trace])


def _document(file: str, verdict: "CaseVerdict") -> dict[str, object]:
    return {
        "name": verdict.case.name,
        "line": verdict.case.line,
        "ok": verdict.failure is None,
        "failure": verdict.failure and {"file": file, **asdict(verdict.failure)},
        "deaths": verdict.deaths,
        "lost": verdict.lost,
        "place": verdict.place,
        "warnings": list(verdict.warnings),
    }


@contextmanager
def _progress(name: str) -> "Iterator[ShowProgress]":
    """A function that shows a line on a terminal, and clears it at the end; elsewhere it does nothing."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    screen, last = getattr(sys.stderr, "rich_proxied_file", sys.stderr), 0.0

    def show(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last > EVERY:
            last = time.monotonic()
            print(f"\r\x1b[K{printable(name)}: {done} of {total}", end="", file=screen, flush=True)

    yield show
    print("\r\x1b[K", end="", file=screen, flush=True)


@contextmanager
def _quiet() -> "Iterator[TracebackLog]":
    """Drops the log of the engine unless debugging, and keeps what handlers raise."""
    import structlog

    from sluicegate.streams.testing.tracebacks import TracebackLog

    before = structlog.get_config()
    log = TracebackLog(quiet=not debugging())
    wrapper = structlog.make_filtering_bound_logger(logging.DEBUG)
    structlog.configure(processors=[log, *before["processors"]], wrapper_class=wrapper)
    try:
        yield log
    finally:
        structlog.configure(**before)
