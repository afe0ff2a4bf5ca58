"""Sluicegate: a Kafka stream processor on ordinary stores.

`App` is an application in Python, and `Agent` one of its agents: help(sluicegate.App) and help(sluicegate.Agent)
describe every keyword. The names in `__all__` are the public interface; docs/python.md says how they may change.

The packages are `sluicegate.streams` (the processor), `sluicegate.connectors` (one folder for each outside system) and
`sluicegate.schemas` (formats of messages). In the repository they are the folders `streams/`, `connectors/` and
`schemas/`, which this package links to, so that an installation has one top-level name and cannot collide with packages
of an application.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sluicegate.connectors import open_store as open_store
    from sluicegate.streams import ConcurrencyError as ConcurrencyError
    from sluicegate.streams import ConfigurationError as ConfigurationError
    from sluicegate.streams import Entry as Entry
    from sluicegate.streams import KeyNotFoundError as KeyNotFoundError
    from sluicegate.streams import OutboxMessage as OutboxMessage
    from sluicegate.streams import PersistenceError as PersistenceError
    from sluicegate.streams import Timeout as Timeout
    from sluicegate.streams.app import Agent as Agent
    from sluicegate.streams.app import App as App
    from sluicegate.streams.config import Problem as Problem
    from sluicegate.streams.handlers import BadItems as BadItems
    from sluicegate.streams.handlers import Batch as Batch
    from sluicegate.streams.handlers import Context as Context
    from sluicegate.streams.handlers import Message as Message
    from sluicegate.streams.handlers import Outage as Outage
    from sluicegate.streams.handlers import Schedule as Schedule
    from sluicegate.streams.handlers import Send as Send
    from sluicegate.streams.handlers import Session as Session
    from sluicegate.streams.serving.client import Client as Client
    from sluicegate.streams.serving.client import ClientError as ClientError
    from sluicegate.streams.serving.client import StateGroup as StateGroup
    from sluicegate.streams.testing.driver import TestDriver as TestDriver

_PUBLIC = {
    "sluicegate.connectors": "open_store",
    "sluicegate.streams": "ConcurrencyError ConfigurationError Entry KeyNotFoundError OutboxMessage PersistenceError"
    " Timeout",
    "sluicegate.streams.app": "Agent App",
    "sluicegate.streams.config": "Problem",
    "sluicegate.streams.handlers": "BadItems Batch Context Message Outage Schedule Send Session",
    "sluicegate.streams.serving.client": "Client ClientError StateGroup",
    "sluicegate.streams.testing.driver": "TestDriver",
}
_MODULES = {name: module for module, names in _PUBLIC.items() for name in names.split()}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: a worker process starts without most of them."""
    from importlib import import_module

    if name not in _MODULES:
        raise AttributeError(f"module 'sluicegate' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
