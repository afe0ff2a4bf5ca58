"""Whether the records of open groups can be read again under another rule."""

from sluicegate.streams.agent import Agent
from sluicegate.streams.topic_names import in_words


def why_not_rewound(old: Agent, new: Agent) -> str | None:
    """The reason why the policy `rewind` does not suit these agents. None: their rules permit it."""
    if old.aggregation is None or new.aggregation is None:
        return "the agent has no groups"
    if old.over_table or new.over_table:
        return "the rows of a table are known, so changes that are read again would change nothing"
    if old.aggregation.window is not None or new.aggregation.window is not None:
        return "the watermark of event-time windows never goes back, so records that are read again would be late"
    if "shared" in (old.scope, new.scope):
        return "with scope: shared the buffer holds the records, and converts exactly"
    if old.dedupe is not None or new.dedupe is not None:
        return "with dedupe the ids of the records are known, so they would count as duplicates"
    if old.receive:
        where = ", ".join(map(in_words, old.receive))
        return f"repeats are dropped in {where}, so records that are read again would be dropped"
    if old.aggregation.on_full != "fire-oldest":
        return "only with on_full: fire-oldest do the records alone decide which of them a group holds"
    return None
