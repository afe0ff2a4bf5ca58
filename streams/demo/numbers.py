"""The numbers of the demo, from its process to the run whose page shows them: a file in the folder of the demo."""

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class DemoNumbers:
    """The file, which one process writes and another reads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mark = path.with_suffix(".read")  # its time is that of the last reading

    def write(self, numbers: Mapping[str, Any]) -> None:
        """In one step: a reader gets the old numbers or the new ones."""
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(numbers), "utf-8")
        os.replace(new, self._path)

    def read(self) -> Any:
        """Raises OSError before the first writing."""
        self._mark.touch()
        return json.loads(self._path.read_text("utf-8"))

    def unread(self) -> float:
        """The seconds since the last reading."""
        try:
            return time.time() - self._mark.stat().st_mtime
        except FileNotFoundError:
            return float("inf")
