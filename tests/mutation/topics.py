"""Guards of the topics that a pattern matches: which, where each begins, and what happens when one comes or goes."""

from tests.mutation.guard import NEVER, Guard

ENGINE = ("tests/unit/engine/test_topic_patterns.py",)
FILE = ("tests/unit/config/test_topic_patterns.py",)
WRITTEN = "streams/config/checking/written.py"
ROLES = ("tests/unit/config/test_bad_files.py",)
KAFKA = ("tests/unit/kafka/test_subscription.py",)
MATCHING = "streams/ownership/matching_topics.py"

GUARDS = (
    Guard(
        "a topic that appears later is read from its beginning",
        "streams/ownership/beginning.py",
        'if wanted == "earliest" or (matching is not None and matching.later(partition.topic)):',
        'if wanted == "earliest":',
        ENGINE,
    ),
    Guard(
        "the store keeps which topics matched at first",
        MATCHING,
        "self._first = self._known() or self._written(topics)",
        "self._first = {name: tuple(matching([name], topics)) for name in self._patterns}",
        ENGINE,
    ),
    Guard("the first topics of other patterns are kept", MATCHING, "first = {**mine, **known}", "first = mine", ENGINE),
    Guard(
        "a pattern asks for no topic of Kafka itself",
        "streams/topic_names.py",
        "if topic.startswith(OF_KAFKA) or cluster_of(name) != cluster_of(topic):",
        "if cluster_of(name) != cluster_of(topic):",
        FILE,
    ),
    Guard(
        "a pattern matches whole names",
        "streams/topic_names.py",
        "re2.compile(pattern, options=options).fullmatch",
        "re2.compile(pattern, options=options).search",
        FILE,
    ),
    Guard(
        "a pattern matches no topic that the file writes",
        "streams/config/checking/patterns.py",
        "        if use.topic not in names and matches(name, use.topic):",
        f"        {NEVER}",
        FILE,
    ),
    Guard(
        "a topic that is gone halts nothing",
        "connectors/kafka/subscription.py",
        '        return "unread"',
        "        return code",
        KAFKA,
    ),
    Guard(
        "a named topic that is gone halts its partitions",
        "connectors/kafka/subscription.py",
        'if self._look is None or not self._by_pattern or code != "unknown-topic":',
        'if self._look is None or code != "unknown-topic":',
        KAFKA,
    ),
    Guard(
        "a partition of a topic that is gone has no owner",
        "streams/ownership/claims.py",
        "            self._clearing.add(partition, token, (), now)  # no worker will claim it",
        "            pass",
        ENGINE,
    ),
    Guard(
        "windows wait for a topic that appeared, and no more for one that is gone",
        "streams/ownership/claims.py",
        "            if self._setting.matching.look():",
        "            if self._setting.matching.look() is None:",
        ENGINE,
    ),
    Guard("a topic of the app's own has one role", WRITTEN, "        if other.role < use.role or", "        if", ROLES),
    Guard(
        "a history, a re-keyed topic and legs are of one agent",
        WRITTEN,
        "or (other is not use and use.role not in SHARED):",
        "or False:",
        ROLES,
    ),
    Guard(
        "messages of schedules go to no topic of the app's own",
        WRITTEN,
        "    for name, schedule in file.schedules.items():",
        "    for name, schedule in ():",
        ROLES,
    ),
)
