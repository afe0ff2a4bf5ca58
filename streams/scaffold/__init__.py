"""The files of a new app: a file for `sluicegate run`, its handler, tests, and servers for Docker."""

from sluicegate.streams.scaffold.files import NAME, STORES, project

__all__ = ["NAME", "STORES", "project"]
