"""Plays one test of a file on a driver, once without failures and once for each place where something can fail."""

from collections.abc import Callable
from dataclasses import dataclass

from sluicegate.streams.agent import App
from sluicegate.streams.cases import (
    PARTITIONS,
    AdvanceStep,
    Case,
    CaseStep,
    DeployStep,
    Expect,
    ExpectNothing,
    ExpectRows,
    PutRow,
    ReplaceHandlers,
    SendCase,
    SetupFile,
)
from sluicegate.streams.errors import SluicegateError
from sluicegate.streams.testing import matching
from sluicegate.streams.testing.deaths import REPLIES, DeathKind, Deaths
from sluicegate.streams.testing.driver import TestDriver
from sluicegate.streams.testing.log import START
from sluicegate.streams.testing.observed import observed
from sluicegate.streams.testing.outputs import ReadOutput
from sluicegate.streams.testing.tracebacks import error_lines
from sluicegate.streams.wording import counted


@dataclass(frozen=True, slots=True)
class Failure:
    """`text` compares the expectation with the output. `observed` has a line for each fact that may explain the
    difference. `trace` shows where the user's code raised."""

    line: int
    text: str
    observed: tuple[str, ...] = ()
    trace: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CaseVerdict:
    """The result of one test. `deaths` and `lost` count the deaths and the unanswered requests that it survived.
    `place` is the place of the failure. `warnings` are the warnings about its records."""

    case: Case
    failure: Failure | None
    deaths: int = 0
    lost: int = 0
    place: str | None = None
    warnings: tuple[str, ...] = ()


ShowProgress = Callable[[int, int], object]


def play(app: App, case: Case, deaths: Deaths | None = None) -> Failure | None:
    """Plays the test. None: it passed. An error that the app raises is a failure."""
    at = case.steps[0].line if case.steps else case.line
    setup = [step.file for step in case.steps if isinstance(step, SetupFile)]
    try:
        with TestDriver(app, partitions=PARTITIONS, deaths=deaths, setup=setup) as driver:
            stage = PlayStage(driver, case)
            try:
                for step in case.steps:
                    at = step.line
                    stage.take(step)
                stage.end()
            except _Unexpected as error:
                return Failure(error.line, str(error), stage.observed(error.topic))
    except SluicegateError as error:
        return Failure(at, f"the app could not go on: {error}")
    except (Exception, SystemExit) as error:
        return Failure(at, f"the app raised {type(error).__name__}: {error}", trace=error_lines(error))
    return None


def play_with_crashes(app: App, case: Case, progress: ShowProgress) -> CaseVerdict:
    """Play the test without failures, then with a death at each place that it reached, then with each request to the
    store left without an answer."""
    plain = Deaths()
    failure = play(app, case, plain)
    if failure is not None:
        return CaseVerdict(case, failure)
    breaks: list[tuple[int, DeathKind]] = [(number, "kill") for number in range(1, len(plain.reached) + 1)]
    breaks += [(number, "lost") for number, name in enumerate(plain.reached, 1) if name in REPLIES]
    survived: dict[DeathKind, int] = {"kill": 0, "lost": 0}
    for done, (number, kind) in enumerate(breaks):
        progress(done, len(breaks))
        deaths = Deaths(number, kind)
        failure = play(app, case, deaths)
        if failure is not None:
            what = "a death" if kind == "kill" else "no answer from the store"
            place = f"{what} at {plain.reached[number - 1]}, place {number}"
            return CaseVerdict(case, failure, survived["kill"], survived["lost"], place)
        survived[kind] += len(deaths.done)
    return CaseVerdict(case, None, survived["kill"], survived["lost"])


class _Unexpected(Exception):
    """The test failed. `topic` is the topic whose outputs the text describes."""

    def __init__(self, line: int, text: str, topic: str = "") -> None:
        super().__init__(text)
        self.line, self.topic = line, topic


class PlayStage:
    """A driver, and the outputs that no step has expected yet."""

    def __init__(self, driver: TestDriver, case: Case) -> None:
        self._driver = driver
        self._left: dict[str, list[ReadOutput]] = {}
        # by topic: the line of the file that a left-over output is reported for
        self._lines = dict.fromkeys(driver.dead_letter_topics, case.line)

    def take(self, step: CaseStep) -> None:
        """Plays one step. Raises _Unexpected."""
        match step:
            case SendCase():
                at = step.at if step.after is None else START + step.after
                sent = step.topic, step.value, step.key, step.headers, at
                self._driver.send(*sent, partition=step.partition, times=step.times)
            case ReplaceHandlers():
                for agent, functions in step.functions.items():
                    self._driver.replace_handler(agent, *functions)
            case PutRow():
                self._driver.put_row(step.source, step.key, step.value)
            case DeployStep():
                self._driver.deploy(step.file, step.policy)
                self._lines |= dict.fromkeys(self._driver.dead_letter_topics, step.line)
            case AdvanceStep():
                self._driver.advance(step.seconds)
            case Expect():
                self._lines[step.topic] = step.line
                self._expect(step)
            case ExpectNothing():
                self._lines[step.topic] = step.line
                self._expect_nothing(step.line, step.topic, "no further output")
            case ExpectRows():
                self._expect_rows(step)

    def end(self) -> None:
        """Raises _Unexpected for an output that is left on a topic of the test, for a dead letter, and for a partition
        that does not move."""
        for topic, line in self._lines.items():
            self._expect_nothing(line, topic, "no further output until the end of the test")
        for trouble in self._driver.troubles():
            raise _Unexpected(max(self._lines.values()), f"at the end of the test a partition stands still: {trouble}")

    def observed(self, topic: str) -> tuple[str, ...]:
        """The outputs on other topics than the expected one."""
        others = [other for other in self._driver.output_topics if other != topic]
        return observed(self._driver, topic, [output for other in others for output in self._outputs(other)])

    def _expect(self, step: Expect) -> None:
        outputs = self._outputs(step.topic)
        matches = matching.candidates(outputs, step.key)
        for output in matches:
            if not matching.differences(step, output):
                outputs.remove(output)
                return
        text = f"expected {matching.expectation_text(step)}; {self._instead(step, matches, outputs)}"
        raise _Unexpected(step.line, text, step.topic)

    def _expect_rows(self, step: ExpectRows) -> None:
        matches = self._driver.rows(step.sql)
        if len(matches) != len(step.rows):
            wanted = counted(len(step.rows), "row")
            came = counted(len(matches), "row")
            raise _Unexpected(step.line, f"expected {wanted}; {came} came: {matching.value_text(matches)}")
        for number, (expected, row) in enumerate(zip(step.rows, matches, strict=True), 1):
            wrong = [name for name, value in expected.items() if name not in row or not matching.fits(value, row[name])]
            if wrong:
                text = f"expected row {number} to be {matching.value_text(expected)}; {', '.join(wrong)} differs"
                raise _Unexpected(step.line, f"{text}: {matching.value_text(row)}")

    def _instead(self, step: Expect, matches: list[ReadOutput], outputs: list[ReadOutput]) -> str:
        if matches:
            which = "the next one" if len(matches) == 1 else f"the first of the {len(matches)} that may be next"
            differences = ", ".join(matching.differences(step, matches[0]))
            return f"{which} does not fit: {differences} ({matching.output_text(matches[0])})"
        troubles = "".join(f"; {trouble}" for trouble in self._driver.troubles())
        if outputs:
            return f"none came with this key, {len(outputs)} with others: {matching.output_text(outputs[0])}{troubles}"
        return f"none came{troubles}"

    def _expect_nothing(self, line: int, topic: str, wanted: str) -> None:
        outputs = self._outputs(topic)
        if outputs:
            came = f"{len(outputs)} came: {matching.output_text(outputs[0])}"
            raise _Unexpected(line, f"expected {wanted} on {topic}; {came}", topic)

    def _outputs(self, topic: str) -> list[ReadOutput]:
        unmatched = self._left.setdefault(topic, [])
        unmatched += self._driver.read(topic)
        return unmatched
