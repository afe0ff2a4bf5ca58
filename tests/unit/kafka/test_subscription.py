"""Which topics a consumer subscribes to when patterns ask for them."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from sluicegate.connectors.kafka import subscription
from sluicegate.connectors.kafka.settings import Settings
from sluicegate.connectors.kafka.subscription import Subscription, TopicLook
from sluicegate.streams.errors import SystemNotReady
from tests.waiting import wait_until

IN = "^in.*"


class Look:
    """A look whose answers are the test's."""

    def __init__(self, kafka: Settings) -> None:
        self.answer: list[str] | None = None
        self.asked = 0

    def result(self) -> list[str] | None:
        answer, self.answer = self.answer, None
        return answer

    def again(self) -> None:
        self.asked += 1

    def close(self) -> None: ...


Subscribed = list[list[str]]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Subscription, Look, Subscribed]]:
    monkeypatch.setattr(subscription, "TopicLook", Look)

    def make(*asked: str, looks: bool = False) -> tuple[Subscription, Look, Subscribed]:
        calls: Subscribed = []
        one = Subscription({}, asked, lambda topics: calls.append(list(topics)), looks)
        return one, one._look, calls  # type: ignore[return-value]

    return make


def followed(one: Subscription, look: Look, *topics: str) -> Sequence[str] | None:
    look.answer = list(topics)
    one.follow()
    return one.topics


def test_what_matches_is_subscribed_when_it_changes(made: Callable[..., Any]) -> None:
    one, look, calls = made(IN)
    one.follow()
    assert (one.topics, one.empty, calls) == (None, False, [])
    assert followed(one, look, "in1", "out") == ["in1"]
    assert followed(one, look, "out", "in1", "other") == ["in1"]
    assert followed(one, look, "in1", "in2") == ["in1", "in2"]
    assert followed(one, look, "in2", "__in") == ["in2"]
    assert (followed(one, look, "out"), one.empty) == ([], True)
    assert calls == [["in1"], ["in1", "in2"], ["in2"], []]


def test_named_topics_are_subscribed_at_once_and_never_left(made: Callable[..., Any]) -> None:
    one, look, calls = made("named", IN)
    assert calls == [["named"]]
    assert followed(one, look, "in1") == ["named", "in1"]
    assert followed(one, look) == ["named"]
    assert not one.empty
    assert calls == [["named"], ["named", "in1"], ["named"]]


def test_without_a_pattern_nothing_is_looked_for(made: Callable[..., Any]) -> None:
    one, look, calls = made("a", "b")
    one.follow()
    assert (look, one.topics, one.existing, calls) == (None, ["a", "b"], None, [["a", "b"]])
    assert one.judged("unknown-topic") == "unknown-topic"


def test_others_may_ask_which_topics_there_are(made: Callable[..., Any]) -> None:
    one, look, calls = made("a", looks=True)
    assert followed(one, look, "a", "in1") == ["a"]
    assert (one.existing, calls) == (["a", "in1"], [["a"]])
    assert one.judged("unknown-topic") == "unknown-topic"


def test_a_topic_that_is_gone_is_looked_for_at_once_and_halts_nothing(made: Callable[..., Any]) -> None:
    one, look, _ = made(IN)
    assert one.judged("unknown-topic") == "unread"
    assert one.judged("truncated") == "truncated"
    assert look.asked == 1


def test_the_look_goes_on_after_a_failure_and_looks_again_when_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, answers = threading.Semaphore(0), [SystemNotReady("away"), SystemNotReady("away"), ["a"], ["a", "b"]]

    def names(admin: object, timeout: float) -> list[str]:
        asked.release()
        answer: Any = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return list(answer)

    monkeypatch.setattr(subscription, "open_admin", lambda kafka: None)
    monkeypatch.setattr(subscription, "names", names)
    monkeypatch.setattr(subscription, "LOOK_AGAIN", 0.01)
    look = TopicLook({subscription.REFRESH: -1})
    try:
        assert wait_until(look.result, 10, "the first answer") == ["a"]
        assert look.result() is None
        look.again()
        assert wait_until(look.result, 10, "the second answer") == ["a", "b"]
    finally:
        look.close()
    look._thread.join(10)
    assert not look._thread.is_alive()
