"""A file with tests of its own."""

from pathlib import Path

from sluicegate.streams.agent import App
from sluicegate.streams.cases import Case
from sluicegate.streams.testing.files import loaded
from sluicegate.streams.testing.play import CaseVerdict, Failure, play, play_with_crashes

HEAD = """\
app: flights
kafka: {bootstrap.servers: "${BROKER}"}
store: memory://
agents:
  delays:
    from: flights
    aggregate: {count: 3, timeout: {after: 30s}, compute: {total: {sum: delay}, mean: {mean: delay}}}
    to: {topic: delays}
  pairs:
    from: delays
    aggregate: {count: 2, timeout: {after: 1m}, compute: {total: {sum: total}}}
    to: {topic: pairs}
tests:
  it:
"""
FIRST = HEAD.count("\n") + 1  # line of a test's first step

FULL = """\
- send: {topic: flights, key: UA, value: {delay: 2}, times: 3}
- expect: {topic: delays, key: UA, value: {count: 3, total: 6, mean: 2}}
- send: {topic: flights, key: AA, value: {delay: 7}}
- advance: 29999ms
- expect_nothing: delays
- advance: 1ms
- expect: {topic: delays, key: AA, reason: timeout}
- advance: 1m
- expect: {topic: pairs, key: UA, value: {count: 1, total: 6}}
- expect: {topic: pairs, key: AA, value: {count: 1, total: 7}}
"""


def text_of(steps: str, head: str = HEAD) -> str:
    return head + "".join(f"    {line}\n" for line in steps.splitlines())


def the_case(folder: Path, steps: str, head: str = HEAD) -> tuple[App, Case]:
    path = folder / "flights.yaml"
    path.write_text(text_of(steps, head))
    file = loaded(path)
    assert file.app is not None, [str(problem) for problem in file.problems]
    (case,) = file.cases
    return file.app, case


def played(folder: Path, steps: str, head: str = HEAD) -> Failure | None:
    return play(*the_case(folder, steps, head))


def crashed(folder: Path, steps: str, head: str = HEAD) -> CaseVerdict:
    return play_with_crashes(*the_case(folder, steps, head), lambda done, total: None)
