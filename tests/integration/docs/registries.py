"""What a package registry served on a day, asked through the package manager that is set up here: pip, npm or Maven.
No host is named: each of them knows its registry. Raises Unavailable where there is no answer."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from xml.etree import ElementTree

from packaging.version import Version

from tests.servers import Unavailable

PIP = "pip>=26"
"""`--uploaded-prior-to` came with it. It is installed into a folder of its own."""
GET = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:get"
RELEASE = re.compile(r"\d+(?:\.\d+)*")
SECONDS = 150


def pypi(name: str, day: date, folder: Path) -> str:
    """The newest release at the end of this day."""
    pip = folder / "pip"
    if not pip.exists():
        _output([sys.executable, "-m", "pip", "install", "--quiet", "--target", str(pip), PIP])
    before = f"{day + timedelta(days=1)}T00:00:00Z"
    command = [sys.executable, "-m", "pip", "index", "versions", name, "--json", "--uploaded-prior-to", before]
    return str(json.loads(_output(command, PYTHONPATH=str(pip)))["latest"])


def npm(name: str, day: date, folder: Path) -> str:
    """The greatest release at the end of this day."""
    times: Mapping[str, str] = json.loads(_output(["npm", "view", name, "time", "--json"]))
    days = {version: _day(text) for version, text in times.items() if RELEASE.fullmatch(version)}
    return _greatest([version for version, released in days.items() if released <= day])


def maven(name: str, day: date, folder: Path) -> str:
    """The greatest release at the end of this day. The day of a release is that of the newest file in its jar: Maven's
    metadata has none."""
    group, artifact = name.split(":")
    place = folder / "m2" / group.replace(".", "/") / artifact
    _fetch(f"{name}:LATEST:pom", folder)
    [listing, *_] = sorted(place.glob("maven-metadata-*.xml"))
    versions = [str(node.text) for node in ElementTree.parse(listing).iter("version")]
    for version in sorted(filter(RELEASE.fullmatch, versions), key=Version, reverse=True):
        _fetch(f"{name}:{version}", folder)
        if built(place / version / f"{artifact}-{version}.jar") <= day:
            return version
    raise Unavailable(f"{name} has no release before {day}")


def built(jar: Path) -> date:
    with zipfile.ZipFile(jar) as files:
        return max(date(*entry.date_time[:3]) for entry in files.infolist())


Registry = Callable[[str, date, Path], str]
REGISTRIES: Mapping[str, Registry] = {"PyPI": pypi, "npm": npm, "Maven": maven}


def _greatest(versions: Sequence[str]) -> str:
    return max(versions, key=Version)


def _day(text: str) -> date:
    return datetime.fromisoformat(text).date()


def _fetch(artifact: str, folder: Path) -> None:
    local = f"-Dmaven.repo.local={folder / 'm2'}"
    _output(["mvn", "-q", "-B", local, GET, f"-Dartifact={artifact}", "-Dtransitive=false"])


def _output(command: Sequence[str], **environ: str) -> str:
    """What it prints. The registry is one of the user's settings."""
    if shutil.which(command[0]) is None:
        raise Unavailable(f"{command[0]} is not on the PATH")
    try:
        done = subprocess.run(
            command, env={**os.environ, **environ}, capture_output=True, text=True, timeout=SECONDS, check=True
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"no answer of {command[0]} within {SECONDS} s") from error
    except subprocess.CalledProcessError as error:
        raise Unavailable(f"{command[0]} failed: {error.stderr[-500:]}") from error
    return done.stdout
