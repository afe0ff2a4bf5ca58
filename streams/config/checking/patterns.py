"""Finds patterns of `from: {pattern: ...}` that match a topic that the file itself writes. Its records would come back
for ever."""

from collections.abc import Iterator, Set

from sluicegate.streams.config.checking.written import uses
from sluicegate.streams.config.sections.models import FileModel
from sluicegate.streams.config.sections.models_agent import AgentModel
from sluicegate.streams.config.text.problems import FileFinding, Path
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.topic_names import TopicNames, matcher, matches, pattern_of, patterns, topics


def readable(names: set[str]) -> Set[str]:
    """A set of names that includes the topics of its patterns. Without RE2, which is a problem of its own, patterns
    match nothing."""
    return TopicNames(names) if _can_match() else names


def _can_match() -> bool:
    """Whether patterns can be evaluated. A missing RE2 is reported elsewhere."""
    try:
        return bool(matcher(""))
    except ConfigurationError:
        return False


def findings(file: FileModel, agent: AgentModel, path: Path) -> Iterator[FileFinding]:
    readers = agent.readers.items() if _can_match() else ()
    for place, reader in readers if agent.correlate is None else [leg for leg in readers if leg[0]]:
        names = [source.name for source in reader.from_]
        at: Path = (*path, *place, "from")
        for name in patterns(names):
            yield from _matched(file, name, names, at)


def _matched(file: FileModel, name: str, names: list[str], at: Path) -> Iterator[FileFinding]:
    """Topics that the file writes and this pattern matches. A topic that the agent also names is intended."""
    pattern, written = pattern_of(name), {use.topic: use for use in uses(file)}
    for topic in topics(names):
        if matches(name, topic) and topic not in written:
            what = f"names {topic}, which the pattern {pattern} matches already"
            yield FileFinding(at, what, "leave out the name, or narrow the pattern", (at,))
    for use in written.values():
        if use.topic not in names and matches(name, use.topic):
            what = f"matches {use.topic}, which {use.what}: the agent would read what this file writes"
            own = use.agent == at[1]
            hint = f"narrow the pattern, or {'give the topic another name' if own else 'name the topic beside it, too'}"
            yield FileFinding(at, what, hint, (at, use.path))
