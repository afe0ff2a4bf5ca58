"""The rule of an agent: the part of its file that decides what the agent does with a record. Pure: no store, no clock,
no Kafka.

`rule_of(agent)` returns the rule as a document and its digest. Each result of an aggregation carries the first eight
hex digits of the digest in the header `sluicegate-rule`.
"""

from sluicegate.streams.rules.identity import AgentRule, rule_of

__all__ = ["AgentRule", "rule_of"]
