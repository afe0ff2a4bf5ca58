"""Writes dead rows and letters to a file, to keep them after their topic and the store have deleted them."""

import os
from collections.abc import Container, Sequence
from pathlib import Path

import msgspec

from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.operations.dead.dead_documents import of_letter, of_row, whole
from sluicegate.streams.operations.dead.dead_letters import Letter
from sluicegate.streams.operations.dead.dead_rows import DeadOutput


def write_archive(path: Path, rows: Sequence[DeadOutput], letters: Sequence[Letter], retried: Container[str]) -> None:
    """Writes the file, which is on the disk when this returns. Each line is a JSON document as in `dead ls --json`,
    with `key`, `value` and the values of `headers` in Base64. Raises ConfigurationError for a file that exists or
    cannot be written."""
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
    """Opens the file so that other users of the machine cannot read it: it holds values of records."""
    return os.open(path, flags, 0o600)
