"""`scope: shared` in the file: what it means, in words, and what it cannot be combined with."""

import pytest

from sluicegate.streams.config.words import meaning
from tests.unit.config.files import GOOD, lines, loaded

SHARED = GOOD.replace("    aggregate:", "    scope: shared\n    aggregate:")
MISTAKES = [
    (
        "    session: true\n    handler: a:b\n",
        "session: needs scope partition: a session commits with the offset of its records, which are committed before "
        "the group ends",
    ),
    (
        "    on_change: finish\n",
        "on_change: needs scope partition: a shared buffer has records, and its groups are made under the rule that "
        "runs",
    ),
    ("    repartition: again\n    key: x\n", "repartition: is not needed: one buffer has the groups of all partitions"),
    (
        "    handler: a:b\n    concurrency: 1\n    then: park\n",
        "then: park needs scope partition: it keeps the order of a key, which groups of a shared buffer do not have",
    ),
]


@pytest.mark.parametrize(("more", "expected"), MISTAKES)
def test_what_one_buffer_cannot_do_is_named(tmp_path, more, expected):
    [problem] = lines(
        loaded(tmp_path, SHARED.replace("    scope: shared\n", f"    scope: shared\n{more}")).problems, tmp_path
    )
    assert f"agents.a.{expected}; leave one of the two out" in problem


EARLY = [
    (
        "    emit: {count: 2}\n",
        "emit.count: does not go together with scope: shared: no worker reads a shared group at each of its records; "
        "write every: 10s in its place",
    ),
    (
        "    emit: {on: change}\n",
        "emit.on: does not go together with scope: shared: no worker reads a shared group at each of its records; "
        "write every: 10s in its place",
    ),
    (
        "    handler: a:b\n    emit: {every: 10s}\n",
        "emit: does not go together with scope: shared and a handler: it is called when a shared group ends; leave out "
        "the handler, and let another agent handle the topic of the results",
    ),
    (
        "    lookup: {c: {table: t, key: key, fields: [name]}}\n    emit: {every: 10s}\n",
        "emit: does not go together with scope: shared and lookup: rows are read when a shared group ends; look the "
        "rows up in an agent that reads the results",
    ),
]


@pytest.mark.parametrize(("more", "expected"), EARLY)
def test_early_results_that_no_shared_group_has_are_named(tmp_path, more, expected):
    text = SHARED.replace("    scope: shared\n", f"    scope: shared\n{more}")
    assert any(f"agents.a.{expected}" in line for line in lines(loaded(tmp_path, text).problems, tmp_path))


def test_a_shared_group_may_have_early_results_by_time(tmp_path):
    text = SHARED.replace("    scope: shared\n", "    scope: shared\n    emit: {every: 10s}\n")
    file = loaded(tmp_path, text)
    assert lines(file.problems, tmp_path) == []
    assert any("in no result yet, by the store's clock" in sentence for sentence in meaning(file.app.agents[0]))


def test_until_asks_for_the_record_only(tmp_path):
    def found(until: str) -> list[str]:
        return lines(loaded(tmp_path, SHARED.replace("{count: 10}", f"{{until: {until}}}")).problems, tmp_path)

    [line] = found("total > 5.0 || group.count > 2")
    what = "asks for group, and needs scope partition for it: no worker reads a shared group before it ends"
    assert f"agents.a.aggregate.until: {what}; ask for fields of the record" in line
    assert [found(until) for until in ("total > 5.0", "{field: total, equals: 5}")] == [[], []]


def test_it_needs_the_outbox(tmp_path):
    [problem] = lines(loaded(tmp_path, SHARED + "outbox: false\n").problems, tmp_path)
    assert "agents.a.scope: needs the outbox: its results are sent from there; leave out outbox: false" in problem


def test_it_is_said_in_words(tmp_path):
    text = SHARED + "    dedupe: {id: header:h, horizon: 1h}\n"
    sentences = meaning(loaded(tmp_path, text).app.agents[0])
    assert sentences[0].endswith(
        "one group per message key, over all partitions and topics, in one buffer that all workers share"
    )
    assert (
        "drops a record whose header h is in the buffer, or left it up to 1 h before; a record without one is a dead "
        "letter"
    ) in sentences
