"""`python -m tests.docs.terminal`: runs the demo on a terminal of 100 columns and writes docs/pictures/demo.svg: its
real output without the file at its begin and the chart."""

import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from fcntl import ioctl
from pathlib import Path

from rich.console import Console
from rich.text import Text

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "pictures" / "demo.svg"
COMMAND = [sys.executable, "-c", "from sluicegate.streams.cli import main; main()", "demo", "--kill", "5"]
SHOWN = "make demo KILL=1"
WIDTH = 100
PARTS = ("Departure delays", "Mean delay by carrier", " flights in ")
FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)  # of another host


def output() -> str:
    """All that the demo writes, with its colours. Raises CalledProcessError when it fails."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 60, WIDTH, 0, 0))
    run = subprocess.Popen(COMMAND, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
    os.close(theirs)
    parts = []
    while True:
        try:
            parts.append(os.read(ours, 65536))
        except OSError:  # the end of the terminal
            break
    if code := run.wait():
        raise subprocess.CalledProcessError(code, COMMAND)
    return b"".join(parts).decode()


def picture(text: str) -> str:
    """An SVG of the command and its output: the table of the carriers and the recount."""
    lines = text.replace("\r\n", "\n").splitlines()
    table, chart, end = (next(at for at, line in enumerate(lines) if word in line) for word in PARTS)
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(
        Text.from_ansi("\n".join([f"$ {SHOWN}", "...", *lines[table:chart], "...", *lines[end:]])), soft_wrap=True
    )
    return FONTS.sub("", console.export_svg(title="Sluicegate"))


if __name__ == "__main__":
    PICTURE.write_text(picture(output()) + "\n", encoding="utf-8")
