"""The text of a rule."""

import yaml

from sluicegate.streams.agent import Agent
from sluicegate.streams.rules.document import document


def rule_text(agent: Agent) -> str:
    """The rule of an agent in the keys of the file, as YAML, without default values."""
    return yaml.safe_dump({agent.name: document(agent)}, sort_keys=False, allow_unicode=True, width=100)
