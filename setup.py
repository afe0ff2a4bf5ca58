"""The packages of a distribution: sluicegate, and the three folders that it links to.

Two builds of one commit give the same bytes. What a build writes has the time of SOURCE_DATE_EPOCH, or, without it, of
the commit; in an sdist, of its PKG-INFO.

A checkout without symbolic links (`core.symlinks=false`, as on Windows) has a small file in place of each link. The
packages are then taken from the folders themselves.
"""

import gzip
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

from setuptools import find_namespace_packages, setup
from setuptools.command.sdist import sdist

LINKED = ("connectors", "schemas", "streams")
EPOCH = "SOURCE_DATE_EPOCH"
UNLINKED = [name for name in LINKED if not Path("sluicegate", name).is_dir()]


def epoch() -> str:
    """The time of the source, in seconds since 1970."""
    if Path("PKG-INFO").is_file():
        return str(int(Path("PKG-INFO").stat().st_mtime))
    ask = ["git", "log", "-1", "--format=%ct"]
    done = subprocess.run(ask, capture_output=True, text=True, check=False) if shutil.which("git") else None
    return (done.stdout.strip() if done is not None else "") or "315532800"  # 1980, the earliest that a wheel can have


def same_each_time(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """The member as it is on each machine and for each user."""
    member.mtime, member.uid, member.gid, member.uname, member.gname = int(os.environ[EPOCH]), 0, 0, "", ""
    member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    return member


class Sdist(sdist):
    def make_archive(self, base_name: str, format: str, *_: object, base_dir: str, **__: object) -> str:
        if format != "gztar":
            raise SystemExit(f"there is no sdist of the format {format}: only gztar is the same each time")
        Path(base_name).parent.mkdir(parents=True, exist_ok=True)
        with (
            open(f"{base_name}.tar.gz", "wb") as file,
            gzip.GzipFile("", "wb", 9, file, int(os.environ[EPOCH])) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT, dereference=True) as archive,
        ):
            for path in [Path(base_dir), *sorted(Path(base_dir).rglob("*"))]:
                archive.add(path, path.as_posix(), recursive=False, filter=same_each_time)
        return f"{base_name}.tar.gz"

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        for name in UNLINKED:
            Path(base_dir, "sluicegate", name).unlink(missing_ok=True)
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(name, Path(base_dir, "sluicegate", name), ignore=ignored)


def packages() -> list[str]:
    """Raises SystemExit where a folder is missing: the wheel would lack it."""
    missing = [name for name in UNLINKED if not Path(name, "__init__.py").is_file()]
    if missing:
        raise SystemExit(f"there is neither sluicegate/{missing[0]} nor {missing[0]}: the distribution would lack it")
    names = find_namespace_packages(include=["sluicegate*"])
    for name in UNLINKED:
        names += [f"sluicegate.{name}", *(f"sluicegate.{name}.{below}" for below in find_namespace_packages(name))]
    return names


os.environ.setdefault(EPOCH, epoch())
os.umask(0o022)  # a wheel has the modes of the files
setup(packages=packages(), package_dir={f"sluicegate.{name}": name for name in UNLINKED}, cmdclass={"sdist": Sdist})
