"""`sluicegate init`: what it writes passes its own tests, and nothing is overwritten."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from sluicegate.streams.cli import main
from sluicegate.streams.config import load
from sluicegate.streams.scaffold import STORES, project

PROJECT = Path(__file__).parents[3]
SLUICEGATE = str(Path(sys.executable).with_name("sluicegate"))


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name in ("KAFKA_BOOTSTRAP_SERVERS", "STORE_URL"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def invoke(*args):
    return CliRunner().invoke(main, ["init", *args])


def output(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("store", [*STORES])
def test_what_it_writes_passes_its_own_tests_at_once(folder, store):
    assert invoke("my-shop", "--store", store).exit_code == 0
    assert output(SLUICEGATE, "test", "my-shop.yaml").splitlines()[-1] == "3 of 3 tests passed"
    checked = subprocess.run([SLUICEGATE, "check", "my-shop.yaml"], capture_output=True, text=True, timeout=120)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert load("my-shop.yaml", os.environ).app.store == STORES[store]


@pytest.mark.parametrize("store", [*STORES])
def test_it_names_the_extra_of_a_server_and_none_of_sqlite(store):
    extra = {"sqlite": [], "postgres": ["postgresql"], "mariadb": ["mysql"]}.get(store, [store])
    assert re.findall(r'It needs: pip install "sluicegate\[(.*)\]"', project("shop", store)["shop.yaml"]) == extra


def test_its_tests_for_pytest_pass(folder):
    assert invoke("my-shop").exit_code == 0
    assert "2 passed" in output(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "test_my_shop.py")


def test_its_tests_pass_with_a_death_at_every_place(folder):
    assert invoke("shop").exit_code == 0
    assert output(SLUICEGATE, "test", "shop.yaml", "--crash").splitlines()[-1] == "3 of 3 tests passed"


def test_it_names_what_it_wrote_and_what_comes_next(folder):
    lines = invoke().stdout.splitlines()
    assert lines[:4] == [f"wrote {file}" for file in project("shop", "sqlite")]
    assert {*os.listdir(folder)} == {*project("shop", "sqlite")}
    assert "sluicegate migrate shop.yaml" not in lines
    os.remove("docker-compose.yml")
    assert "sluicegate migrate other.yaml" in invoke("other", "--store", "postgres").stdout.splitlines()


@pytest.mark.parametrize("there", [*project("shop", "redis")])
def test_it_overwrites_nothing_and_then_writes_nothing(folder, there):
    (folder / there).write_text("mine")
    result = invoke("shop", "--store", "redis")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"sluicegate: {there}: exists already; choose another name, or an empty folder\n"
    assert os.listdir(folder) == [there]
    assert (folder / there).read_text() == "mine"


def test_a_file_that_was_made_in_between_stays(folder, monkeypatch):
    """The look at the folder finds nothing yet: opening the file refuses."""
    (folder / "shop.yaml").write_text("mine")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "exists", lambda self: False)
        result = invoke("shop")
    assert (result.exit_code, "shop.yaml" in result.stderr) == (2, True)
    assert (folder / "shop.yaml").read_text() == "mine"


@pytest.mark.parametrize("name", ["", "a b", "../a", "1", "a/b", "-"])
def test_a_name_is_a_name(folder, name):
    assert invoke("--", name).exit_code == 2
    assert os.listdir(folder) == []


def test_its_servers_are_those_that_sluicegate_is_developed_with():
    ours = yaml.safe_load((PROJECT / "docker-compose.yml").read_text())
    for store in STORES:
        made = yaml.safe_load(project("shop", store)["docker-compose.yml"])
        assert {*made["services"]} == {"kafka", store} - {"sqlite"}
        assert all(ours["services"][name] == service for name, service in made["services"].items())
        assert {*made["volumes"]} == {*made["services"]}
