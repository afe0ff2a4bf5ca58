"""`sluicegate keys`: lists keys by age and makes new ones; never shows one."""

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from sluicegate.connectors import open_store
from sluicegate.streams.cli import main
from sluicegate.streams.units import duration
from sluicegate.streams.versions import mac_keys

FILE = """\
app: shop
kafka: {bootstrap.servers: "127.0.0.1:1"}
store: STORE
http: false
agents: {a: {from: in, aggregate: {count: 2}, to: {topic: out}}}
"""
Keys = Callable[..., Result]


@pytest.fixture
def file(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/state.db"
    (tmp_path / "shop.yaml").write_text(FILE.replace("STORE", url))
    with closing(open_store(url)) as store:
        store.migrate()
    return str(tmp_path / "shop.yaml")


@pytest.fixture
def keys(file: str) -> Keys:
    return lambda name, *more: CliRunner().invoke(main, ["keys", name, file, *more])


def test_keys_are_listed_by_age_and_never_shown(keys: Keys, tmp_path: Path) -> None:
    assert json.loads(keys("ls", "--json").stdout) == {"keys": []}
    with closing(open_store(f"sqlite:///{tmp_path}/state.db")) as store:
        mac_keys.read_or_make(store, "shop", lambda: "token")
        listing = mac_keys.listed(store, "shop")
    assert listing is not None
    result = keys("ls", "--json")
    [only] = json.loads(result.stdout)["keys"]
    assert (only["state"], only["proves"], only["made"]) == ("signs", None, only["signs"])
    [secret] = [signing_key.key for signing_key in listing[0].keys]
    shown = result.output + keys("ls").output + keys("rotate").output + keys("ls").output + repr(listing)
    assert not any(text in shown for text in (secret.hex(), repr(secret)[2:-1], str(secret)))


def test_a_new_key_waits_a_minute_and_the_earlier_one_signs_and_proves(keys: Keys) -> None:
    assert (made := keys("rotate")).exit_code == 0, made.output
    assert made.stdout.startswith("a new key signs from 20")
    assert "before it" not in made.stdout
    second = keys("rotate", "--keep", "7d", "--why", "as each year")
    assert (second.exit_code, "the keys before it (1) prove until 20" in second.stdout) == (0, True)
    assert keys("rotate", "--help").stdout.count("14d") == 1
    assert duration("14d") == mac_keys.KEEP
    newest, earlier = json.loads(keys("ls", "--json").stdout)["keys"]
    assert (newest["state"], newest["proves"], earlier["state"]) == ("waits", None, "signs")
    assert earlier["proves"] > newest["signs"]
    table = keys("ls").stdout
    assert [word in table for word in ("state", "age", "waits", "signs")] == [True] * 4


@pytest.mark.parametrize("keep", ["soon", "-1d", "7"])
def test_a_bad_duration_changes_nothing(keys: Keys, keep: str) -> None:
    result = keys("rotate", f"--keep={keep}")
    assert (result.exit_code, f"--keep {keep}: write a duration, such as 14d" in result.stderr) == (2, True)
    assert json.loads(keys("ls", "--json").stdout) == {"keys": []}


def test_the_audit_says_who_made_a_key(keys: Keys, file: str) -> None:
    keys("rotate", "--why", "a laptop was lost", "--keep", "0s", "--by", "anne")
    changes = json.loads(CliRunner().invoke(main, ["audit", file, "--json"]).stdout)["changes"]
    assert [(change["who"], change["what"], change["key"], change["why"]) for change in changes] == [
        ("anne", "keys rotate", "--keep 0s", "a laptop was lost")
    ]


def test_a_store_that_is_not_migrated_says_so(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(FILE.replace("STORE", f"sqlite:///{tmp_path}/other.db"))
    result = CliRunner().invoke(main, ["keys", "rotate", str(tmp_path / "shop.yaml")])
    assert (result.exit_code, "migrate" in result.stderr) == (3, True), result.output
