"""The packages of a distribution: sluicegate, and the three folders that it links to.

A checkout without symbolic links (`core.symlinks=false`, as on Windows) has a small file in place of each link. The
packages are then taken from the folders themselves.
"""

import shutil
from pathlib import Path

from setuptools import find_namespace_packages, setup
from setuptools.command.sdist import sdist

LINKED = ("connectors", "schemas", "streams")
UNLINKED = [name for name in LINKED if not Path("sluicegate", name).is_dir()]


class Sdist(sdist):
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


setup(packages=packages(), package_dir={f"sluicegate.{name}": name for name in UNLINKED}, cmdclass={"sdist": Sdist})
