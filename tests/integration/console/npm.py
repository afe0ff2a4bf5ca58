"""Packages of the npm registry."""

import os
import shutil
import subprocess
import tarfile
from base64 import b64encode
from hashlib import sha512
from pathlib import Path

import pytest

from tests.integration.console.browser import needed


def packed(name: str, version: str, integrity: str, folder: Path) -> dict[str, bytes]:
    """The files of a package by their paths. Skips the test where the registry does not answer."""
    npm = shutil.which("npm")
    if npm is None:
        needed("no npm")
    done = subprocess.run(
        [str(npm), "pack", "--silent", f"{name}@{version}"],
        cwd=folder,
        env={**os.environ, "npm_config_cache": str(folder / "cache"), "npm_config_fetch_retries": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    if done.returncode:
        pytest.skip(f"the registry does not answer: {done.stderr[-300:]}")
    archive = folder / done.stdout.strip().splitlines()[-1]
    assert f"sha512-{b64encode(sha512(archive.read_bytes()).digest()).decode()}" == integrity
    with tarfile.open(archive) as files:
        members = {member.name.partition("/")[2]: files.extractfile(member) for member in files if member.isfile()}
        return {path: file.read() for path, file in members.items() if file is not None}
