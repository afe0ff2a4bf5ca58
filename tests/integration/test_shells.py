"""`sluicegate --install-completion` in a shell: the next shell completes commands and subcommands at Tab."""

import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import ioctl
from pathlib import Path

import pytest

from tests.conftest import missing
from tests.servers import Unavailable
from tests.waiting import wait_until

ESCAPES = re.compile(r"\x1b(?:\[[0-9;?>=]*[a-zA-Z]|\][^\x07]*\x07|[()][A-Z0-9]|[=>])|\r")

TAB = "\t"
FIRST = {"zsh": TAB + TAB}
"""At the first Tab zsh only loads the script."""


class Shell:
    """A person at an interactive shell."""

    def __init__(self, name: str, home: Path) -> None:
        self._ours, theirs = pty.openpty()
        ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
        environ = {"HOME": str(home), "TERM": "xterm", "LANG": "C.UTF-8"}
        environ |= {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        self.process = subprocess.Popen(
            [name, "-i"],
            cwd=home,
            env=environ,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)
        self._shown: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()
        self.types("echo rea''dy\r", r"^ready$")

    def _read(self) -> None:
        while True:
            try:
                self._shown.append(os.read(self._ours, 65536).decode(errors="replace"))
            except OSError:  # its end
                return

    def types(self, keys: str, answer: str) -> None:
        """And sees the answer, a pattern of a line, behind what was shown before."""
        before = len(self._text())
        os.write(self._ours, keys.encode())
        wait_until(lambda: re.search(answer, self._text()[before:], re.M), 60, f"{answer} after {keys!r}")

    def _text(self) -> str:
        return ESCAPES.sub("", "".join(self._shown))


@contextmanager
def opened(name: str, home: Path) -> Iterator[Shell]:
    shell = Shell(name, home)
    try:
        yield shell
    finally:
        print(repr(shell._text()[-2000:]))
        shell.process.kill()
        shell.process.wait()


@pytest.fixture(params=["bash", "zsh", "fish"])
def shell(request: pytest.FixtureRequest) -> str:
    if shutil.which(request.param) is None:
        missing(Unavailable(f"{request.param} is not on the PATH: install the package {request.param}"))
    return str(request.param)


def test_the_next_shell_completes_commands_at_tab(shell: str, tmp_path: Path) -> None:
    (tmp_path / ".zshrc").touch()  # without it zsh asks a new user how it shall be set up
    with opened(shell, tmp_path) as first:
        first.types("sluicegate --install-completion\r", "completion installed")
    with opened(shell, tmp_path) as second:
        second.types(f"sluicegate vers{FIRST.get(shell, TAB)}\r", r"^sluicegate \d")
        second.types(f"sluicegate dead arc{TAB}--help\r", r"Usage: sluicegate dead archive ")
