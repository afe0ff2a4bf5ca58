"""Routes and `select` of what handlers send, in a file that is tested with a death at every place."""

from pathlib import Path

import pytest

from tests.unit.testing.files import crashed

FILE = """\
app: books
kafka: {bootstrap.servers: "${BROKER}"}
store: memory://
dead_letters: dead
agents:
  double:
    from: in
    handler: tests.unit.engine.handlers:forward
    %s
    to:
      - {topic: all, where: doubled > 0, continue: true, select: {half: "doubled / 2"}}
      - {topic: large, where: doubled > 10, envelope: {cloudevents: binary, type: large}}
      - {topic: small, where: doubled > 0}
tests:
  it:
"""
STEPS = """\
- send: {topic: in, key: a, value: {amount: 2}}
- send: {topic: in, key: b, value: {amount: 20}}
- send: {topic: in, key: c, value: {amount: 0}}
- expect: {topic: all, key: a, value: {half: 2}}
- expect: {topic: all, key: b, value: {half: 20}}
- expect: {topic: small, key: a, value: {doubled: 4}}
- expect: {topic: large, key: b, value: {doubled: 40}, headers: {ce_type: large}}
- expect: {topic: dead, key: c, reason: unrouted, value: {amount: 0}}
"""


@pytest.mark.parametrize("how", ["", "session: true", "concurrency: 2"])
def test_outputs_are_the_same_after_a_death_anywhere(how: str, tmp_path: Path) -> None:
    verdict = crashed(tmp_path, STEPS, FILE % how)
    assert verdict.failure is None, verdict.failure
    assert verdict.deaths > 20
