"""The App of the code-first interface."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, Unpack

from sluicegate.streams.app import origins, values
from sluicegate.streams.app.agent import Agent, check_keywords, made
from sluicegate.streams.app.keys import AgentKeys, AppKeys, HandlerFunction
from sluicegate.streams.app.origins import CodePlace
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.importing import define, importing

if TYPE_CHECKING:
    from sluicegate.streams.config import Loaded, Problem
    from sluicegate.streams.contracts.stores import Store
    from sluicegate.streams.testing.driver import TestDriver
    from sluicegate.streams.testing.stores import StoreSetup

Decorated = TypeVar("Decorated", bound=HandlerFunction)
Handlers = str | HandlerFunction | Sequence[str | HandlerFunction]


class App:
    """An application: its store, its brokers and its agents.

    The keywords are the keys of a file, with the same values, defaults and checks. `${NAME}` in a text is the
    environment variable, as in a file.

    - `name` is the key `app` of the file. The consumer group of an agent is `<app>.<agent>`.
    - `store` is the URL of the store. A relative SQLite path starts at the folder of the code.
    - `kafka` are settings of librdkafka, at least {"bootstrap.servers": ...}.

    """

    def __init__(self, name: str, *, store: str, kafka: Mapping[str, Any], **keys: Unpack[AppKeys]) -> None:
        """Define an app. Nothing is opened, and nothing is checked before `check`, `test_driver` or `run`. Raises
        ConfigurationError for a value that a file cannot hold."""
        place, folder = origins.of_caller()
        self._functions: dict[str, HandlerFunction] = {}
        self._agents: dict[str, Agent] = {}
        self._places: dict[tuple[str | int, ...], CodePlace] = {(): place}
        self._folder = Path(folder)
        check_keywords(place, f"app {name}", keys, AppKeys.__annotations__)
        document = {"app": name, "store": store, "kafka": kafka, **keys}
        try:
            self._top = {
                key: values.of_value(value, _no_function(key)) for key, value in document.items() if value is not None
            }
        except values.Unsayable as error:
            raise ConfigurationError(f"{place}: app {name}: a value {error}") from error

    @classmethod
    def from_yaml(cls, source: str | Path) -> Self:
        """The app of a file (a Path), or of the text of one. Relative paths start at the folder of the file; for a
        text, at the folder of the code that calls. Raises ConfigurationError for what cannot be read. The values are
        checked when they are used."""
        from sluicegate.streams.app.judging import content, read

        place, folder = origins.of_caller()
        name = place.file
        if isinstance(source, Path):
            name, folder, source = str(source), str(source.parent), content(source)
        elif source.endswith((".yaml", ".yml")):
            raise ConfigurationError(f"{source} is text, and no path; write App.from_yaml(Path({source!r}))")
        tree, places = read(source, name, os.environ, Path(folder))
        agents = tree.pop("agents", None) or {}
        if not isinstance(agents, dict) or not all(isinstance(agent, dict) for agent in agents.values()):
            raise ConfigurationError(
                f"{name}: agents: is not a mapping of agents; write their names, and below their keys"
            )
        app = cls.__new__(cls)
        app._functions, app._top, app._places, app._folder = {}, tree, dict(places), Path(folder)
        app._agents = {
            agent: Agent(agent, None, MappingProxyType(keys), places["agents", agent]) for agent, keys in agents.items()
        }
        return app

    @property
    def name(self) -> str:
        """The name of the app."""
        return str(self._top.get("app", ""))

    @property
    def agents(self) -> Mapping[str, Agent]:
        """The agents by name, in the order of their definition."""
        return MappingProxyType(self._agents)

    @property
    def folder(self) -> Path:
        """Where relative paths start, and where worker processes look for modules."""
        return self._folder

    def agent(self, name: str | None = None, **keys: Unpack[AgentKeys]) -> Callable[[Decorated], Decorated]:
        """Make the decorated function an agent; help(sluicegate.Agent) describes the keywords. `name` is the name of
        the function by default. The function itself is unchanged, so a test can call it.

        Without a keyword of groups, the function gets each message; its first parameter is the message, or its value
        in the type of the annotation. With `count`, `timeout`, `until` or `window`, it gets each group; a first
        parameter `NAME: list[T]` gets the messages of the group, and adds `compute={"NAME": "collect"}`. All other
        parameters get their arguments by name (docs/handlers.md).

        Raises ConfigurationError for a second agent of the same name, for a class or a generator, and for a value that
        a file cannot hold.
        """
        place, _ = origins.of_caller()

        def decorate(function: Decorated) -> Decorated:
            named = getattr(function, "__name__", "") if name is None else name
            self._put(named, function, function, origins.of_function(function, place), {**keys})
            return function

        return decorate

    def add(self, name: str, *, handler: Handlers | None = None, **keys: Unpack[AgentKeys]) -> Agent:
        """Add an agent without a decorated function: one that sends the results of its groups, one that forwards
        records, or one whose `handler` is named as in a file. Raises as `agent`."""
        place, _ = origins.of_caller()
        return self._put(name, None, handler, place, {**keys})

    def check(self) -> "tuple[Problem, ...]":
        """The warnings of `sluicegate check`: what is unsafe, and variables that are not set. Raises ConfigurationError
        with every problem, one a line."""
        judged = self._judged(tolerant=True)
        if judged.problems:
            raise ConfigurationError("\n".join(map(str, judged.problems)))
        return (*judged.warnings, *judged.unset)

    def test_driver(
        self,
        workers: int = 1,
        partitions: int = 4,
        *,
        store: "Store | None" = None,
        setup: "StoreSetup | Sequence[StoreSetup]" = (),
    ) -> "TestDriver":
        """A driver that runs the app without a broker, a server and waiting; use it in a `with` block
        (docs/testing.md). Raises ConfigurationError with every problem."""
        from sluicegate.streams.testing.driver import TestDriver
        from sluicegate.streams.testing.files import usable, without_systems

        app = usable(without_systems(self._judged(tolerant=True)))
        return TestDriver(app, workers, partitions, store=store, setup=setup)

    def to_yaml(self) -> str:
        """The file that means the same. Raises ConfigurationError for an agent whose function no file can name."""
        if lost := self._unimportable():
            raise ConfigurationError("\n".join(map(str, lost)))
        from sluicegate.streams.app.text import as_yaml

        return as_yaml(self._tree())

    def run(
        self,
        agents: Sequence[str] = (),
        workers: int = 1,
        log_level: Literal["debug", "info", "warning", "error"] = "info",
        leave: Sequence[str] = (),
    ) -> None:
        """Run the agents (all, or the named ones) and the dispatcher until SIGTERM or SIGINT, as `sluicegate run` does:
        `workers` processes for each agent, started again when they end. `leave` names agents that the app lacks and
        whose open groups stay in the store. It returns after a clean end. Otherwise it raises SystemExit with the exit
        code of the command: 2 for a problem of the app, 3 for a system.

        Worker processes import the module of each function. In a module that is being imported for that, `run` returns
        at once, so it may stand at the end of a program without `if __name__ == "__main__":`.
        """
        if importing():
            return
        from sluicegate.streams.cli.terminal.outcome import code

        if ended := code(lambda: self._run(agents, workers, log_level, leave)):
            raise SystemExit(ended)

    def __eq__(self, other: object) -> bool:
        """Whether both apps are the same file."""
        from sluicegate.streams.app.judging import canonical

        return isinstance(other, App) and canonical(self._tree()) == canonical(other._tree())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"App({self.name!r}, agents={[*self._agents]})"

    def _put(
        self, name: str, function: HandlerFunction | None, handler: object, place: CodePlace, keys: dict[str, Any]
    ) -> Agent:
        if name in self._agents:
            before = self._agents[name].place
            raise ConfigurationError(f"{place}: agent {name} is defined already at {before}; give it another name")
        agent = self._agents[name] = made(name, function, handler, place, keys, self._path)
        self._places["agents", name] = place
        return agent

    def _path(self, function: HandlerFunction) -> str:
        path = origins.reference(function)
        if isinstance(function, type):
            return path
        if self._functions.setdefault(path, function) is not function:
            other = origins.of_function(self._functions[path], self._places[()])
            raise ConfigurationError(f"{path} is the name of two functions, the other one at {other}; rename one")
        return path

    def _tree(self) -> values.DocumentTree:
        agents = {name: dict(agent.document) for name, agent in self._agents.items()}
        tests = {key: self._top[key] for key in self._top if key == "tests"}
        return {**{key: value for key, value in self._top.items() if key != "tests"}, "agents": agents, **tests}

    def _judged(self, tolerant: bool) -> "Loaded":
        from sluicegate.streams.app.judging import judged

        for path, function in self._functions.items():
            define(path, function)
        return judged(self._tree(), self._places, os.environ, self._folder, tolerant)

    def _unimportable(self) -> "list[Problem]":
        """A problem for each function that other processes cannot find."""
        from sluicegate.streams.config import Problem

        problems = []
        for path, function in self._functions.items():
            if why := origins.unimportable(function, path, str(self._folder)):
                place = origins.of_function(function, self._places[()])
                problems.append(Problem(*place, function.__name__, *why))
        return problems

    def _run(self, agents: Sequence[str], workers: int, log_level: str, leave: Sequence[str]) -> int:
        from sluicegate.streams.cli.terminal.outcome import USAGE, complain
        from sluicegate.streams.cli.workers.run import start
        from sluicegate.streams.config.text.secrets import rotated

        judged = self._judged(tolerant=False)
        problems = [*judged.problems, *self._unimportable()]
        for problem in problems:
            complain(str(problem))
        if judged.app is None or problems:
            return USAGE

        def again(app: Any) -> Any:
            now = self._judged(tolerant=False).app
            return app if now is None else rotated(app, now)

        return start(judged.app, agents, workers, log_level, again, leave=leave)


App.__doc__ = f"{App.__doc__}{AppKeys.__doc__}"


def _no_function(key: str) -> values.OfFunction:
    """Refuses a function below this key of the app."""

    def refuse(function: HandlerFunction) -> str:
        what = f"of {key} cannot be a function: every worker process makes it anew from text"
        callback = "; write the settings of the client in place of a callback, such as sasl.oauthbearer.method: oidc"
        raise values.Unsayable(f"{what}{callback if key == 'kafka' else ''}")

    return refuse
