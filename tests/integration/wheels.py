"""The distributions, built as a release builds them, and the programs of a virtual environment."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
PACKAGED = ("sluicegate", "streams", "connectors", "schemas", "pyproject.toml", "README.md", "LICENSE")
PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check")


def ran(*command: str | Path, cwd: Path) -> str:
    """What the command prints; it must succeed. The environment's own Python path is not used."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run([*map(str, command)], cwd=cwd, env=environ, capture_output=True, text=True, timeout=170)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def python(folder: Path) -> Path:
    return folder / "bin" / "python"


@pytest.fixture(scope="session")
def source_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the distributions are made of, since a build writes into its tree."""
    folder = tmp_path_factory.mktemp("source")
    for name in PACKAGED:
        if (PROJECT / name).is_dir():
            shutil.copytree(PROJECT / name, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(PROJECT / name, folder / name)
    return folder


@pytest.fixture(scope="session")
def built(source_tree: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The sdist, and the wheel that is built of it and of nothing else."""
    folder = tmp_path_factory.mktemp("dist")
    program = f"from setuptools import build_meta; print(build_meta.build_sdist({str(folder)!r}))"
    builder = tmp_path_factory.mktemp("builder")
    ran(sys.executable, "-m", "venv", builder, cwd=folder)
    ran(python(builder), *PIP, "install", "setuptools>=77", cwd=folder)
    ran(python(builder), "-c", program, cwd=source_tree)
    sdist = next(folder.glob("*.tar.gz"))
    ran(python(builder), *PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", folder, sdist, cwd=folder)
    return sdist, next(folder.glob("*.whl"))
