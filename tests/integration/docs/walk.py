"""Does what a page tells its reader, block by block, as the reader would.

- `sh`: commands, in one folder. `export` and `.` lines hold for the blocks that follow. A block that ends with
  `sluicegate run` goes on in the background, on a terminal.
- `text` after `sh`: what the commands print. `...` stands for lines, or a part of a line, that may be anything.
- `diff`: lines of a file that go, stay and come; its first line names the file.
- `yaml` and `python` whose first line is `# FILE` or `# at the end of FILE`: a file, or lines to add to it.
- `<!-- exit N -->` before `sh`: its last command ends with N.
- `<!-- server -->` before `sh`: the commands need servers. They are not run; each command and option must exist.
- `<!-- again -->` before `text`: the commands are repeated until they print it.
"""

import os
import pty
import re
import shlex
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from typer.main import get_command

from sluicegate.streams.cli import main
from tests.docs_reference import each_command
from tests.waiting import wait_until

BLOCK = re.compile(r"(?:^<!-- (exit \d|again|server) -->\n)?^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# What differs from run to run, and what may stand for it.
VOLATILE = (
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
    (r"\bopened \d+ s ago, fires in \d+ s\b", "opened N s ago, fires in N s"),
    (r"\b(baskets)-0-[\w.-]+?-\d+\b", r"\1-0-HOST-PID"),
    (r"\b(pid|port)=\d+", r"\1=N"),
    (r"127\.0\.0\.1:\d+", "ADDRESS"),
)


class Block(NamedTuple):
    note: str
    kind: str
    text: str


def blocks(page: str) -> Iterator[Block]:
    for text in BLOCK.findall(page):
        yield Block(*text)


def steady(text: str) -> list[str]:
    """The lines of a text without colours, spaces for alignment, and what differs from run to run."""
    text = COLOUR.sub("", text)
    for pattern, word in VOLATILE:
        text = re.sub(pattern, word, text)
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def shows(shown: str, printed: str) -> bool:
    """Does the output hold the shown lines, one after the other, and nothing else where the page has no `...`?"""
    parts = [re.escape(line).replace(r"\.\.\.", ".*") for line in steady(shown)]
    pattern = "\n".join(r"(?:.*\n)*?.*" if part == ".*" else part for part in parts)
    return re.fullmatch(pattern, "\n".join(steady(printed))) is not None


def _exist(text: str) -> None:
    """Every line is a command of Sluicegate that there is, with options that it has."""
    known = dict(each_command(get_command(main), "sluicegate"))
    for line in text.splitlines():
        name = max((name for name in known if line.startswith(f"{name} ")), key=len, default="")
        assert name, line
        options = {option for parameter in known[name].params for option in parameter.opts}
        assert {word for word in shlex.split(line) if word.startswith("--")} <= options, line


def change(folder: Path, diff: str) -> None:
    """Changes a file as a block of the kind `diff` says."""
    first, *lines = diff.splitlines(keepends=True)
    file = folder / first.removeprefix("--- ").strip()
    text = file.read_text(encoding="utf-8")
    old = "".join(line[1:] for line in lines if line[0] in "- ")
    new = "".join(line[1:] for line in lines if line[0] in "+ ")
    assert text.count(old) == 1, f"{file.name} does not hold once:\n{old}"
    file.write_text(text.replace(old, new), encoding="utf-8")


class Walk:
    """A reader in a folder. `exchanges` are texts of the page and what the reader has in their place."""

    def __init__(self, folder: Path, exchanges: dict[str, str]) -> None:
        self.folder, self.exchanges = folder, dict(exchanges)
        self.preamble: list[str] = []
        self.commands: list[str] = []
        self.exit, self.printed = 0, ""
        self.background: subprocess.Popen[bytes] | None = None
        self.log: list[str] = []

    def does(self, block: Block) -> None:
        if block.note == "server":
            _exist(block.text)
        elif block.kind == "sh":
            self._run(block)
        elif block.kind == "text" and block.note == "again":
            wait_until(lambda: shows(block.text, self._print(self.commands)), 60, block.text)
        elif block.kind == "text":
            self._compare(block.text)
        elif block.kind == "diff":
            change(self.folder, block.text)
        elif match := re.match(r"# (at the end of )?([\w.-]+\.(?:yaml|py))\n", text := self._mine(block.text)):
            file, text = self.folder / match[2], text[match.end() :] if match[1] else text
            with file.open("a" if match[1] else "w", encoding="utf-8") as stream:
                stream.write(text)

    def _mine(self, text: str) -> str:
        for shown, mine in self.exchanges.items():
            text = text.replace(shown, mine)
        return text

    def _run(self, block: Block) -> None:
        lines = self._mine(block.text).splitlines()
        if lines[-1].startswith("sluicegate run"):
            return self._start(lines)
        self.commands, self.exit = lines, int(block.note.removeprefix("exit ") or 0)
        self.printed = self._print(lines)
        self.preamble += [line for line in lines if line.startswith(("export ", ". "))]
        return None

    def _print(self, lines: list[str]) -> str:
        script = "\n".join(["set -e", *self.preamble, *lines])
        done = subprocess.run(
            ["bash", "-c", script], cwd=self.folder, env=self._environ(), capture_output=True, text=True, timeout=170
        )
        assert done.returncode == self.exit, f"{lines}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def _environ(self) -> dict[str, str]:
        """Of a new shell: nothing of this environment's own Python."""
        ours = ("PYTHON", "VIRTUAL_ENV", "SLUICEGATE", "KAFKA_", "STORE_")
        return {name: value for name, value in os.environ.items() if not name.startswith(ours)} | {"COLUMNS": "200"}

    def _start(self, lines: list[str]) -> None:
        ours, theirs = pty.openpty()
        script = "\n".join([*self.preamble, *lines[:-1], f"exec {lines[-1]}"])
        self.background = subprocess.Popen(
            ["bash", "-c", script], cwd=self.folder, env=self._environ(), stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.close(theirs)
        threading.Thread(target=self._read, args=(ours,), daemon=True).start()

    def _read(self, terminal: int) -> None:
        while True:
            try:
                self.log.append(os.read(terminal, 65536).decode(errors="replace"))
            except OSError:  # its end
                return

    def logged(self) -> str:
        return COLOUR.sub("", "".join(self.log))

    def _compare(self, shown: str) -> None:
        if not re.match(r"\d{4}-", shown):
            assert shows(shown, self.printed), f"{shown}\nis not\n{self.printed}"
            return
        for line in steady(shown):
            wait_until(lambda line=line: any(line in item for item in steady(self.logged())), 60, line)
        for pattern in (r"bootstrap=(\S+)", r"agent=\w+ pid=(\d+)"):
            if match := re.search(pattern, shown):
                mine = re.search(pattern, self.logged())
                assert mine
                self.exchanges.setdefault(match[1], mine[1])

    def close(self) -> None:
        """Ctrl-C, as the reader ends the run."""
        if self.background is not None and self.background.poll() is None:
            self.background.send_signal(signal.SIGINT)
            try:
                self.background.wait(60)
            finally:
                self.background.kill()
