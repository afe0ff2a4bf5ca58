"""A copy of the product, and programs that run with it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]


class Copy:
    """A copy in `folder`. The programs run in `folder` as well; their tests are those of this project."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("sluicegate", "streams", "connectors", "schemas"):
            shutil.copytree(PROJECT / name, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))

    def put(self, file: str, before: str, text: str) -> None:
        """Put the text before the one place in the file where `before` stands."""
        path = self.folder / file
        whole = path.read_text()
        assert whole.count(before) == 1
        path.write_text(whole.replace(before, text + before))

    def write(self, file: str, text: str) -> None:
        (self.folder / file).write_text(text)

    def command(self, *words: str, code: int = 0) -> str:
        """What `sluicegate` prints."""
        return self._run("-m", "sluicegate", *words, code=code)

    def program(self, text: str) -> str:
        """What a program of this text prints."""
        return self._run("-c", text)

    def _run(self, *words: str, code: int = 0) -> str:
        environ = {**os.environ, "PYTHONPATH": f"{self.folder}{os.pathsep}{PROJECT}", "PYTHONDONTWRITEBYTECODE": "1"}
        ran = subprocess.run(
            [sys.executable, "-P", *words], cwd=self.folder, env=environ, capture_output=True, text=True, timeout=300
        )
        assert ran.returncode == code, f"{ran.returncode}: {ran.stdout}{ran.stderr}"
        return ran.stderr + ran.stdout
