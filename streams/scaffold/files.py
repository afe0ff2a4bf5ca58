"""The files of a new app: their names, with the app's name and store filled in."""

from collections.abc import Mapping

from sluicegate.streams.scaffold import compose, texts

NAME = r"[A-Za-z][A-Za-z0-9_-]{0,60}"
STORES: Mapping[str, str] = {
    "redis": "redis://localhost:6379/0",
    "postgres": "postgresql://sluicegate:sluicegate@localhost:5432/sluicegate",
    "mariadb": "mariadb://sluicegate:sluicegate@localhost:3306/sluicegate",
    "mongodb": "mongodb://localhost:27017/sluicegate?directConnection=true",
    "sqlite": "sqlite:///state.db",
}
"""The URL of each store that a new app can have; URLs of servers lead to the server of its docker-compose.yml."""
_EXTRAS = {"postgres": "postgresql", "mariadb": "mysql"}


def project(name: str, store: str) -> dict[str, str]:
    """The text of each file by its name. `name` matches NAME, `store` is one of STORES."""
    module = name.replace("-", "_")
    values = {"@NAME@": name, "@MODULE@": module, "@URL@": STORES[store], "@NEEDS@": _needs(store)}
    return {
        f"{name}.yaml": _filled(texts.FILE, values),
        f"{module}_handlers.py": _filled(texts.HANDLERS, values),
        f"test_{module}.py": _filled(texts.TESTS, values),
        "docker-compose.yml": compose.text(None if store == "sqlite" else store),
    }


def _needs(store: str) -> str:
    """The installation that the store needs. SQLite is part of Python."""
    if store == "sqlite":
        return ""
    return f' It needs: pip install "sluicegate[{_EXTRAS.get(store, store)}]"'


def _filled(text: str, values: Mapping[str, str]) -> str:
    for word, value in values.items():
        text = text.replace(word, value)
    return text
