"""Writes dead rows and letters to a file, for the time when their topic and the store have them no more."""

import os
from collections.abc import Container, Sequence
from pathlib import Path

import msgspec

from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.operations.dead.dead_documents import of_letter, of_row, whole
from sluicegate.streams.operations.dead.dead_letters import Letter
from sluicegate.streams.operations.dead.dead_rows import DeadOutput


def written(path: Path, rows: Sequence[DeadOutput], letters: Sequence[Letter], retried: Container[str]) -> None:
    """Make the file, which is on the disk when this returns: a JSON document a line, as `dead ls --json` shows it, with
    `key`, `value` and the values of `headers` in Base64. Raises ConfigurationError for a file that is there or cannot
    be written."""
    encode = msgspec.json.encode
    try:
        with open(path, "xb", opener=_private) as file:
            for row in rows:
                file.write(encode({**of_row(row), **whole(row)}) + b"\n")
            for letter in letters:
                file.write(encode({**of_letter(letter, retried), **whole(letter)}) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except FileExistsError:
        raise ConfigurationError(f"{path} is there already: name a new file") from None
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from error


def _private(path: str, flags: int) -> int:
    """The file has values of records: other users of the machine read nothing."""
    return os.open(path, flags, 0o600)
