"""Which topics a consumer subscribes to. The topics of patterns are looked for in a thread of its own, since the
request for all topics of a cluster may take a while.

librdkafka could match patterns itself, but by the regular expressions of libc, or with the group protocol of KIP-848 by
those of the brokers, and neither tells which topics match.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from sluicegate.connectors.kafka import settings
from sluicegate.connectors.kafka.admin import TIMEOUT, names, open_admin
from sluicegate.streams import topic_names
from sluicegate.streams.errors import SystemNotReady

REFRESH = "topic.metadata.refresh.interval.ms"
LOOK_AGAIN = 1.0  # seconds until the next look after one that failed


class Subscription:
    """Calls `subscribe` whenever other topics match the names. Without a pattern it does so once."""

    def __init__(
        self,
        kafka: settings.Settings,
        asked: Sequence[str],
        subscribe: Callable[[Sequence[str]], object],
        looks: bool = False,
    ) -> None:
        """`looks`: also looks for topics that no pattern asks for."""
        self._asked, self._subscribe = asked, subscribe
        self._by_pattern = bool(topic_names.patterns(asked))
        self._look = TopicLook(kafka) if looks or self._by_pattern else None
        self.topics: list[str] | None = None if self._by_pattern else list(asked)
        self.existing: list[str] | None = None  # None: the brokers have not answered yet
        if named := topic_names.topics(asked):
            subscribe(named)

    @property
    def empty(self) -> bool:
        """Whether no topic matches, as far as the brokers answered."""
        return self._by_pattern and self.topics == []

    def judged(self, code: str) -> str:
        """The code of a failure, as the worker acts on it.

        A missing topic of a pattern does not halt its partition. The partition is claimed again, until the next look
        finds that the topic is gone.
        """
        if self._look is None or not self._by_pattern or code != "unknown-topic":
            return code
        self._look.again()
        return "unread"

    def follow(self) -> None:
        """Subscribe to what matches now."""
        existing = None if self._look is None else self._look.result()
        if existing is None:
            return
        before, self.existing = self.topics, existing
        self.topics = topic_names.matching(self._asked, existing)
        if self.topics != before:
            self._subscribe(self.topics)

    def close(self) -> None:
        if self._look is not None:
            self._look.close()


class TopicLook:
    """Asks the brokers again and again for the names of all topics."""

    def __init__(self, kafka: settings.Settings) -> None:
        """Raises ConfigurationError."""
        milliseconds = int(kafka.get(REFRESH, settings.CONSUMER_DEFAULTS[REFRESH]))
        self._every = None if milliseconds <= 0 else milliseconds / 1000
        self._admin: Any = open_admin(kafka)
        self._answers = deque[list[str]](maxlen=1)  # the newest one, until it is used
        self._wake, self._closed = threading.Event(), False
        self._thread = threading.Thread(target=self._run, name="topics", daemon=True)
        self._thread.start()

    def result(self) -> list[str] | None:
        """The names, once for each answer."""
        return self._answers.pop() if self._answers else None

    def again(self) -> None:
        self._wake.set()

    def close(self) -> None:
        """Without waiting for brokers."""
        self._closed = True
        self._wake.set()

    def _run(self) -> None:
        failure = ""
        while not self._closed:
            wait = self._every
            try:
                self._answers.append(names(self._admin, TIMEOUT))
                failure = ""
            except SystemNotReady as error:
                wait = LOOK_AGAIN
                if str(error) != failure:
                    settings.log.warning("%s", error)
                failure = str(error)
            self._wake.wait(wait)
            self._wake.clear()
