"""An installation has one top-level name, so that a project may have folders and files that are named as ours are."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

from tests.integration.wheels import PIP, TAGGED, interpreter, python, ran

PROJECT = Path(__file__).resolve().parents[2]

APP = """\
app: shop
kafka: {bootstrap.servers: "localhost:9092"}
store: memory://
agents:
  greet:
    from: orders
    handler: streams:greet
    to: {topic: greetings}
tests:
  an order is greeted:
    - send: {topic: orders, key: bob, value: {customer: Bob}}
    - expect: {topic: greetings, value: {text: hello Bob}}
"""
HANDLER = """\
from connectors import greeting
from schemas.orders import name


def greet(message, send):
    send({"text": f"{greeting} {name(message.value)}"})
"""


@pytest.fixture(scope="module")
def installed(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new virtual environment that holds the wheel and what it requires."""
    folder = tmp_path_factory.mktemp("environment")
    ran(sys.executable, "-m", "venv", folder, cwd=folder)
    ran(python(folder), *PIP, "install", built[1], cwd=folder)
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A user's project with a folder `schemas`, a package `connectors` and a module `streams`."""
    files = {
        "shop.yaml": APP,
        "streams.py": HANDLER,
        "connectors/__init__.py": 'greeting = "hello"\n',
        "schemas/__init__.py": "",
        "schemas/orders.py": 'def name(order):\n    return order["customer"]\n',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_wheel_holds_one_top_level_package_and_all_of_ours(built: tuple[Path, Path]) -> None:
    names = zipfile.ZipFile(built[1]).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"sluicegate"}
    ours = {
        path.relative_to(PROJECT).as_posix()
        for top in ("streams", "connectors", "schemas")
        for path in (PROJECT / top).rglob("*.py")
    }
    page = PROJECT / "streams" / "console" / "page"
    ours |= {path.relative_to(PROJECT).as_posix() for path in page.rglob("*") if path.is_file()}
    assert {f"sluicegate/{name}" for name in ours} <= {*names}
    assert {"sluicegate/py.typed", "sluicegate/schemas/documents/result.avsc"} <= {*names}


def test_the_sdist_holds_files_and_no_links(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[0]) as sdist:
        assert [member.name for member in sdist if member.issym() or member.islnk()] == []
        assert any(name.endswith("/sluicegate/streams/ownership/owner.py") for name in sdist.getnames())


@pytest.fixture
def unlinked(source_tree: Path, tmp_path: Path) -> Path:
    """A checkout without symbolic links: each link is a file that holds its target."""
    folder = tmp_path / "unlinked"
    ran("git", "clone", "-q", "-c", "core.symlinks=false", source_tree, folder, cwd=tmp_path)
    assert (folder / "sluicegate" / "streams").is_file()
    return folder


def test_a_checkout_without_symbolic_links_builds_the_same_files(
    built: tuple[Path, Path], builder: Path, unlinked: Path
) -> None:
    ran(python(builder), "-m", "build", "--no-isolation", unlinked, cwd=unlinked)
    wheel, sdist = next(unlinked.glob("dist/*.whl")), next(unlinked.glob("dist/*.tar.gz"))
    assert sorted(zipfile.ZipFile(wheel).namelist()) == sorted(zipfile.ZipFile(built[1]).namelist())
    ran(python(builder), "-m", "build", "--no-isolation", "--wheel", "--outdir", unlinked, unlinked, cwd=unlinked)
    (direct,) = unlinked.glob("*.whl")  # made of the checkout, and not of the sdist
    assert sorted(zipfile.ZipFile(direct).namelist()) == sorted(zipfile.ZipFile(built[1]).namelist())
    with tarfile.open(sdist) as made, tarfile.open(built[0]) as wanted:
        assert {name for name in wanted.getnames() if "/sluicegate/" in name} <= set(made.getnames())


@pytest.mark.parametrize("kind", ["--wheel", "--sdist"])
def test_a_checkout_without_a_folder_builds_nothing(builder: Path, unlinked: Path, kind: str) -> None:
    shutil.rmtree(unlinked / "streams")
    command = [python(builder), "-m", "build", "--no-isolation", kind, unlinked]
    done = subprocess.run(command, cwd=unlinked, capture_output=True, text=True, timeout=170)
    assert done.returncode != 0
    assert "there is neither sluicegate/streams nor streams" in done.stdout + done.stderr


def test_the_command_runs_beside_modules_of_the_same_names(installed: Path, project: Path) -> None:
    command = installed / "bin" / "sluicegate"
    assert "greet" in ran(command, "check", "shop.yaml", cwd=project)
    assert "1 of 1 tests passed" in ran(command, "test", "shop.yaml", cwd=project)


def test_an_installation_takes_none_of_the_three_names(installed: Path, tmp_path: Path) -> None:
    program = "import importlib.util as u; print([n for n in ('streams', 'connectors', 'schemas') if u.find_spec(n)])"
    assert ran(python(installed), "-c", program, cwd=tmp_path).strip() == "[]"


def test_two_builds_of_one_commit_give_the_same_bytes(
    built: tuple[Path, Path], builder: Path, source_tree: Path, tmp_path: Path
) -> None:
    """In another folder, at another time, by a user with another umask."""
    ran("git", "clone", "-q", source_tree, tmp_path / "clone", cwd=tmp_path)
    for path in (tmp_path / "clone").rglob("*.py"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
        path.chmod(0o600)
    before = os.umask(0o077)
    try:
        ran(python(builder), "-m", "build", "--no-isolation", "--outdir", tmp_path, cwd=tmp_path / "clone")
    finally:
        os.umask(before)
    assert [(tmp_path / archive.name).read_bytes() == archive.read_bytes() for archive in built] == [True, True]


def test_the_wheel_says_what_it_is(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[1]) as wheel:
        [name] = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = message_from_bytes(wheel.read(name))
    assert (metadata["License-Expression"], metadata["Author"]) == ("Apache-2.0", "The Sluicegate maintainers")
    assert {url.partition(",")[0] for url in metadata.get_all("Project-URL", [])} >= {"Homepage", "Source", "Changelog"}
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])


def test_an_installation_without_extras_plays_the_demo(installed: Path, tmp_path: Path) -> None:
    lines = ran(installed / "bin" / "sluicegate", "demo", "--kill", "1", cwd=tmp_path).splitlines()
    assert lines[0].startswith("These flights are made up")
    assert lines[-1] == "50000 flights in, 50000 accounted for, 0 lost, 0 repeated"


def test_an_index_takes_both(builder: Path, built: tuple[Path, Path]) -> None:
    assert ran(builder / "bin" / "twine", "check", "--strict", *built, cwd=builder).count("PASSED") == 2


def test_the_version_is_that_of_the_tag(built: tuple[Path, Path], installed: Path, tmp_path: Path) -> None:
    assert [path.name.split("-")[1].removesuffix(".tar.gz") for path in built] == [TAGGED, TAGGED]
    assert ran(installed / "bin" / "sluicegate", "version", cwd=tmp_path).splitlines()[0] == f"sluicegate {TAGGED}"


def test_a_tree_without_tag_or_without_git_has_a_version_before_the_first_one(
    source_tree: Path, builder: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(source_tree, folder, symlinks=True, ignore=shutil.ignore_patterns("*.egg-info"))
    ran("git", "tag", "-d", f"v{TAGGED}", cwd=folder)
    ask = ("-m", "setuptools_scm", "--root", folder)
    assert ran(python(builder), *ask, cwd=folder).startswith(("0.1.dev1+g", "0.1.0.dev1+g"))
    shutil.rmtree(folder / ".git")
    assert ran(python(builder), *ask, cwd=folder) == "0.1.0.dev0\n"


@pytest.mark.parametrize("minor", [11, 12, 13, 14])
def test_both_are_installed_in_an_empty_environment_of_each_python(
    built: tuple[Path, Path], minor: int, project: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "environment"
    ran(interpreter(minor), "-m", "venv", folder, cwd=tmp_path)
    install = (python(folder), *PIP, "install", "--no-compile", "--force-reinstall")
    for archive, more in ((built[1], ()), (built[0], ("--no-deps",))):  # the sdist takes the place of the wheel
        ran(*install, *more, archive, cwd=tmp_path)
        assert ran(folder / "bin" / "sluicegate", "version", cwd=project).splitlines()[0] == f"sluicegate {TAGGED}"
        assert "1 of 1 tests passed" in ran(folder / "bin" / "sluicegate", "test", "shop.yaml", cwd=project)
    demo = ran(folder / "bin" / "sluicegate", "demo", "--kill", "1", cwd=project)
    assert "50000 accounted for, 0 lost, 0 repeated" in demo
