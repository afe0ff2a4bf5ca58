"""Programs that worker processes cannot import are refused before anything runs, with the line and the way out."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """\
from sluicegate import App

app = App("shop", store="memory://", kafka={"bootstrap.servers": "localhost:9092"})


@app.agent(from_="orders", to="out")
def handle(value, send): ...


app.run()
"""


def refused(folder: Path, *arguments: str) -> str:
    """What the program says when its run is refused."""
    done = subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, timeout=60)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    return done.stderr


def test_a_file_whose_name_is_no_module(tmp_path: Path) -> None:
    (tmp_path / "my-shop.py").write_text(PROGRAM, encoding="utf-8")
    refusal = refused(tmp_path, "my-shop.py")
    assert (
        "my-shop.py:6:1: handle: worker processes cannot import my-shop.py; put the function into a module" in refusal
    )


def test_text_that_is_no_file(tmp_path: Path) -> None:
    assert "worker processes cannot import an interactive session; put the function" in refused(tmp_path, "-c", PROGRAM)


def test_a_module_that_another_one_hides(tmp_path: Path) -> None:
    for folder in ("hidden", "first"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "shop.py").write_text(PROGRAM, encoding="utf-8")
    program = f"import sys, runpy; sys.path.insert(0, {str(tmp_path / 'first')!r}); sys.argv = ['hidden/shop.py']\n"
    (tmp_path / "start.py").write_text(
        program + "runpy.run_path('hidden/shop.py', run_name='__main__')", encoding="utf-8"
    )
    refusal = refused(tmp_path, "start.py")
    assert f"worker processes import {tmp_path / 'first' / 'shop.py'} under the name shop; rename shop.py" in refusal


def test_a_function_whose_name_was_given_to_something_else(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(PROGRAM.replace("app.run()", "del handle\napp.run()"), encoding="utf-8")
    assert "handle: shop:handle does not exist any more; keep the function under its own name" in refused(
        tmp_path, "shop.py"
    )
