"""`make docs` in a tree without `make setup`: it needs the extra `docs` and no other, and a minute."""

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[3]
LEFT_OUT = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "target")
SECONDS = 60.0


@pytest.mark.timeout(400)
def test_the_pages_are_built_within_a_minute(tmp_path: Path) -> None:
    """Of a processor, which is what a machine without other work takes, beside the network."""
    tree = tmp_path / "tree"
    shutil.copytree(PROJECT, tree, symlinks=True, ignore=LEFT_OUT)
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = ["make", "docs", f"PYTHON={sys.executable}"]
    done = subprocess.run(command, cwd=tree, env=environ, capture_output=True, text=True, timeout=390)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tree / "build" / "site" / "index.html").exists()
    packages = {path.name for path in (tree / ".venv" / "site").glob("lib/*/site-packages/*")}
    assert "mkdocs" in packages
    assert not packages & {"pytest", "redis", "psycopg", "pymongo"}
    assert 5.0 < after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < SECONDS
