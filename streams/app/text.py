"""Converts documents to YAML that reads back as the same values."""

from typing import Any

import yaml

from sluicegate.streams.app.values import DocumentTree
from sluicegate.streams.config.text import scalars


def as_yaml(tree: DocumentTree) -> str:
    """The document as YAML."""
    return yaml.dump(tree, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


def of_yaml(text: str) -> Any:
    """The values of a document as they are written: `${VAR}` stays text. None for an empty document."""
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    return None if node is None else _plain(node)


def _plain(node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode):
        return {key.value: _plain(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_plain(part) for part in node.value]
    assert isinstance(node, yaml.ScalarNode)
    return scalars.plain(node.value) if node.style is None else node.value


_BREAKS = frozenset("\x85\u2028\u2029")
"""Line breaks of YAML that are text in Python: YAML keeps them between double quotes alone."""


class _Dumper(yaml.SafeDumper):
    """Quotes each text that would be read as another value, and writes numbers as they were written."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: _Dumper, text: str) -> yaml.Node:
    style = None if isinstance(scalars.plain(text), str) else "'"
    if _BREAKS.intersection(text):
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _integer(dumper: _Dumper, number: scalars.Integer) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:int", number.text)


def _decimal(dumper: _Dumper, number: scalars.Decimal) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:float", number.text)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(scalars.Integer, _integer)
_Dumper.add_representer(scalars.Decimal, _decimal)
