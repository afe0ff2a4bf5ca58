"""`delivery: transactional` in the file: what it means, in words, and what it cannot be combined with."""

from sluicegate.streams.config.words import meaning
from tests.unit.config.files import GOOD, lines, loaded

TRANSACTIONAL = GOOD.replace("    aggregate:", "    delivery: transactional\n    aggregate:")
SENTENCE = "sends in Kafka transactions: a consumer of committed records never reads a result or dead letter twice"


def test_it_is_the_agents_own_and_said_in_words(tmp_path):
    [agent] = loaded(tmp_path, TRANSACTIONAL).app.agents
    assert agent.delivery == "transactional"
    assert SENTENCE in meaning(agent)
    [other] = loaded(tmp_path, GOOD).app.agents
    assert other.delivery == "at-least-once"
    assert SENTENCE not in meaning(other)


def test_both_halves_of_a_repartition_have_it(tmp_path):
    text = TRANSACTIONAL.replace("    aggregate:", "    key: x\n    repartition: again\n    aggregate:")
    assert [agent.delivery for agent in loaded(tmp_path, text).app.agents] == ["transactional"] * 2


def test_a_shared_buffer_is_sent_by_the_dispatcher(tmp_path):
    [problem] = lines(
        loaded(tmp_path, TRANSACTIONAL.replace("    aggregate:", "    scope: shared\n    aggregate:")).problems,
        tmp_path,
    )
    assert (
        "agents.a.delivery: needs scope partition: results of a shared buffer are sent by the dispatcher, at least once"
        in problem
    )


def test_the_embedded_broker_keeps_no_transactions(tmp_path):
    [problem] = lines(loaded(tmp_path, TRANSACTIONAL.replace("localhost:9092", "embedded")).problems, tmp_path)
    assert (
        "agents.a.delivery: needs a real broker: consumers of the embedded one read the records of aborted transactions"
        in problem
    )


def test_another_word_is_refused(tmp_path):
    [problem] = lines(loaded(tmp_path, TRANSACTIONAL.replace("transactional", "exactly-once")).problems, tmp_path)
    assert "agents.a.delivery: must be at-least-once or transactional; write one of these words" in problem
