"""Builds native/ as it is or as a twin, for one call of pytest. A debug build: a number that overflows is an error."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.native.twins import Twin

PROJECT = Path(__file__).resolve().parents[2]
TARGET = PROJECT / "build" / "native-twins"
TESTS = ("tests/native/test_same.py", "-x", "-q", "-p", "no:cacheprovider", "--no-header")


def built(folder: Path, twin: Twin | None) -> Path:
    """The folder with the module. Raises RuntimeError where the text of the twin is not there once, and where it does
    not compile."""
    tree, module = folder / "native", folder / "module"
    shutil.copytree(PROJECT / "native", tree, ignore=shutil.ignore_patterns("target"), symlinks=True)
    if twin is not None:
        path = tree / "src" / twin.file
        whole = path.read_text()
        if whole.count(twin.text) != 1:
            raise RuntimeError(f"{twin.promise}: {twin.text!r} stands {whole.count(twin.text)} times in {twin.file}")
        path.write_text(whole.replace(twin.text, twin.instead))
    command = ["cargo", "build", "--quiet", "--locked", "--manifest-path", str(tree / "Cargo.toml")]
    done = subprocess.run(command, env=os.environ | {"CARGO_TARGET_DIR": str(TARGET)}, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    module.mkdir()
    shutil.copy(TARGET / "debug" / "libsluicegate_native.so", module / "sluicegate_native.abi3.so")
    return module


def tested(module: Path) -> str:
    """The name of the first test that fails with this module; empty: none does."""
    environ = os.environ | {"PYTHONPATH": str(module)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *TESTS], cwd=PROJECT, env=environ, capture_output=True, text=True
    )
    failed = [line.split(" ")[1] for line in done.stdout.splitlines() if line.startswith("FAILED ")]
    if done.returncode and not failed:
        raise RuntimeError(done.stdout[-2000:])
    return failed[0] if failed else ""
