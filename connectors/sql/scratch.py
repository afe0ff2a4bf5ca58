"""A SQLite store in a folder of its own, for tests of handlers with a session: its tables are made by SQL scripts."""

import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path

from sluicegate.connectors.sql.sqlite import Sqlite
from sluicegate.connectors.sql.state import SqlStore
from sluicegate.streams.errors import ConfigurationError


def scratch(folder: Path, clock: Callable[[], float], scripts: Iterable[Path]) -> SqlStore:
    """A new store in this folder, migrated, with what the scripts make. Raises ConfigurationError that names a script
    that fails."""
    path = folder / "test.db"
    store = SqlStore(Sqlite(path, clock))
    store.migrate()
    for script in scripts:
        database = sqlite3.connect(path)
        try:
            database.executescript(script.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(
                f"setup {script} cannot be read ({error}); name a file of SQL next to the file"
            ) from error
        except sqlite3.Error as error:
            raise ConfigurationError(f"setup {script}: SQLite says: {error}; write what SQLite understands") from error
        finally:
            database.close()
    return store
