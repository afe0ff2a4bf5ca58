"""The house rules that a program can check: each function takes a project's folder and returns what is wrong, one line
each."""

import ast
import gc
import io
import os
import re
import tokenize
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

PRODUCT = "sluicegate"  # the one top-level package of an installation; it links to the folders below
PACKAGES = ("streams", "connectors", "schemas")
MAX_FUNCTION_LINES = 40
MAX_FILES = 25  # of the product in one folder
MAX_ATTRIBUTES = 20  # that the methods of one class of the product set
MAX_README_LINES = 125

SKIPPED_FOLDERS = {"__pycache__", "build", "dist", "target"}
FORBIDDEN_WORDS = {"manager", "helper", "helpers", "base", "abstract", "mixin", "util", "utils"}
NO_NOUNS = {"each", "found", "held", "said", "given", "told", "heard"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
RUNS_CODE = "streams/aggregation/compiled/compiler.py"  # it compiles trees of the program's own making
FORBIDDEN_MODULES = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle"}
FORBIDDEN_ATTRIBUTES = {
    ("os", "system"),
    ("os", "popen"),
    ("subprocess", "getoutput"),
    ("subprocess", "getstatusoutput"),
}
FORBIDDEN_ATTRIBUTES |= {
    ("yaml", name) for name in ("load", "load_all", "unsafe_load", "unsafe_load_all", "full_load", "full_load_all")
}
FORBIDDEN_LOADERS = {"Loader", "UnsafeLoader", "FullLoader", "CLoader", "CUnsafeLoader", "CFullLoader"}  # of yaml

# Pure code takes time, randomness and the outside world as arguments.
IMPURE_MODULES = {
    "time",
    "random",
    "secrets",
    "socket",
    "subprocess",
    "threading",
    "multiprocessing",
    "asyncio",
    "os",
    "pathlib",
}
SHARED_VALUES = {f"streams.{name}" for name in ("contracts", "errors", "agent", "failpoints", "topic_names", "urls")}
# Of a switch that turns a protection off: a call, an environment variable, a twin's text. `unsafe` as a word is no
# switch.
SWITCH = re.compile(r"\bunsafe\(|_UNSAFE\b|\bUNFENCED\b|\bUNHELD\b|\btwins?\b|TWIN_")

DOCUMENT = re.compile(r"(?<![\w/.{}*-])[\w.-][\w./-]*\.md\b")  # the path of a document, as prose and links write it
LINK = re.compile(r"\]\(([^)\s]+)\)")
# A number in a list that the repository does not hold, such as a weak point or a clause of a design.
NUMBER_ELSEWHERE = re.compile(r"\b[ABSX]\d{1,2}\b|\bcontracts? \d+|\bdesign/")

HEADERS = "streams/contracts/headers.py"
COMMON = "(files)"  # the files beside the rooms, such as streams/errors.py, and the values of streams/agent
VALUES = "agent"
DOOR = "streams"  # streams/__init__.py
# Files of one folder that import each other, at the top or inside of a function: a circle that is left.
CIRCLES = [
    {"streams/contracts/lane_row.py", "streams/contracts/messages.py"},
    {f"schemas/{name}.py" for name in ("codecs", "frames", "pinned", "registry")},
    {f"streams/windows/{name}.py" for name in ("groups", "placing", "room")},
    {
        f"streams/config/sections/{name}.py"
        for name in (
            *(
                "cases",
                "correlating",
                "correlating_time",
                "declared",
                "emitting",
                "envelopes",
                "calls/flow",
                "late",
                "lookups",
            ),
            *("models", "models_agent", "models_groups", "models_topics", "reading", "windows"),
        )
    },
]
# Which room of streams/ may import which. Every room may import COMMON, which imports no room.
_VALUES = {"aggregation", "contracts"}
_BELOW_HANDLERS = _VALUES | {"calling", "journal", "observe", "outbox", "reading", "rules"}
ARROWS: dict[str, set[str]] = {
    COMMON: set(),
    DOOR: {"contracts"},
    "contracts": set(),
    "calling": set(),
    "asyncapi": set(),
    "demo": {"contracts"},
    "scaffold": set(),
    "expressions": set(),
    "aggregation": {"contracts", "expressions"},
    "rules": {"aggregation", "expressions"},
    "correlation": {"aggregation", "contracts"},
    "windows": {"aggregation", "contracts", "correlation", "expressions"},
    "versions": _VALUES | {"rules"},
    "observe": _VALUES,
    "journal": _VALUES,
    "reading": _VALUES,
    "outbox": _VALUES | {"calling", "expressions", "observe", "rules", "windows", DOOR},
    "handlers": _BELOW_HANDLERS | {"windows"},
    "shadow": _VALUES | {"outbox", "reading", "windows"},
    "lookups": _BELOW_HANDLERS | {"handlers"},
    "flow": _BELOW_HANDLERS | {"handlers"},
    "shared": _BELOW_HANDLERS | {"handlers", "lookups"},
    "ownership": _BELOW_HANDLERS | {"correlation", "handlers", "shared", "windows"},
    "engine": _BELOW_HANDLERS | {"flow", "handlers", "lookups", "shared", "ownership", "versions", "windows"},
    "operations": _BELOW_HANDLERS
    | {"expressions", "handlers", "shadow", "shared", "ownership", "engine", "versions", "windows"},
    "console": _BELOW_HANDLERS | {"handlers", "operations", "versions", "windows"},
    "serving": {"contracts", "handlers", "observe", "operations"},
    "config": {"aggregation", "contracts", "expressions", "handlers", "observe"},
    "processes": {"calling", "config", "observe"},
    "testing": _BELOW_HANDLERS
    | {"handlers", "shared", "ownership", "engine", "config", "operations", "versions", "windows"},
}
ARROWS["cli"] = {*ARROWS} - {COMMON}
ARROWS["app"] = {"cli", "config", "contracts", "handlers", "testing"}  # cli is the door of files, app that of Python

DRIVERS = {
    "confluent_kafka": "connectors.kafka",
    "confluent_kafka.schema_registry": "connectors.registry",
    "redis": "connectors.redis",
    "sqlite3": "connectors.sql",
    "sqlalchemy": "connectors.sql",
    "psycopg": "connectors.sql",
    "pymysql": "connectors.sql",
    "pymongo": "connectors.mongodb",
    "bson": "connectors.mongodb",
    "opentelemetry": "streams.observe.tracing",
    "opentelemetry.sdk.metrics": "streams.observe.otel_metrics",
    "opentelemetry.sdk.resources": "streams.observe.otel",
    "opentelemetry.sdk.util": "streams.observe.otel_metrics",
}

FOR_TESTS = ("connectors.memory", "connectors.sql.scratch")  # what streams.testing may import, inside of functions

# With commas, so that this file does not name one either.
_HOSTS = "pypi,org pythonhosted,org maven,org maven,apache,org npmjs,org docker,io crates,io"
_HOSTS += " golang,org debian,org sonatype,org ghcr,io quay,io"
REGISTRY_HOSTS = [name.replace(",", ".") for name in _HOSTS.split()]


def files(root: Path, pattern: str = "*") -> Iterator[Path]:
    """The project's own files, sorted: nothing generated, nothing hidden but .ci."""
    for folder, inside, node in os.walk(root):
        inside[:] = sorted(folder for folder in inside if not _is_skipped(folder))
        yield from (path for name in sorted(node) if fnmatch(name, pattern) and (path := Path(folder, name)).is_file())


def _is_skipped(folder: str) -> bool:
    return folder in SKIPPED_FOLDERS or folder.endswith(".egg-info") or (folder.startswith(".") and folder != ".ci")


def sources(root: Path) -> Iterator[tuple[str, ast.Module]]:
    """Each Python file as (path below root, syntax tree)."""
    for path in files(root, "*.py"):
        yield path.relative_to(root).as_posix(), _parsed(path.read_text(), str(path))


def _product(root: Path) -> Iterator[tuple[str, ast.Module]]:
    """As `sources`, of the packages alone."""
    for package in PACKAGES:
        yield from ((f"{package}/{path}", tree) for path, tree in sources(root / package))


@cache
def _parsed(text: str, name: str) -> ast.Module:
    """Each rule reads every file: one tree for all of them. It lives as long as the process, so Python's collector need
    not look at it: that took more time than the parser."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text, name)
    finally:
        gc.freeze()
        if enabled:
            gc.enable()


@cache
def _nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    """All nodes of a tree. The rules ask for them dozens of times, which takes longer than to parse the file."""
    nodes = [tree]
    for node in nodes:
        for value in vars(node).values():
            if isinstance(value, ast.AST):
                nodes.append(value)
            elif isinstance(value, list):
                nodes += [item for item in value if isinstance(item, ast.AST)]
    return (*nodes,)


@cache
def attributes(node: ast.ClassDef) -> set[str]:
    """The attributes that its methods set."""
    return {
        target.attr
        for target in ast.walk(node)
        if isinstance(target, ast.Attribute)
        and isinstance(target.ctx, ast.Store)
        and isinstance(target.value, ast.Name)
        and target.value.id == "self"
    }


def _functions(tree: ast.Module) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef, ...]:
    return tuple(node for node in _nodes(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def sizes(root: Path) -> list[str]:
    """Functions that are too long, a README that is, classes of the product with too many attributes, and folders of it
    with too many files.
    `tests/house_report.py` reports large files and classes."""
    folders = Counter(str(Path(path).parent) for path, _ in sources(root) if path.split("/")[0] in PACKAGES)
    problems = [
        f"{folder}: {count} files, at most {MAX_FILES}: sub-folders say what they are"
        for folder, count in folders.items()
        if count > MAX_FILES
    ]
    for path, tree in sources(root):
        for node in _functions(tree):
            if (lines := (node.end_lineno or 0) - node.lineno + 1) > MAX_FUNCTION_LINES:
                problems.append(f"{path}:{node.lineno}: {node.name} has {lines} lines, at most {MAX_FUNCTION_LINES}")
        for node in _nodes(tree) if path.split("/")[0] in PACKAGES else ():
            if isinstance(node, ast.ClassDef) and (count := len(attributes(node))) > MAX_ATTRIBUTES:
                problems.append(f"{path}:{node.lineno}: {node.name} has {count} attributes, at most {MAX_ATTRIBUTES}")
    readme = root / "README.md"
    if readme.exists() and (lines := len(readme.read_text().splitlines())) > MAX_README_LINES:
        problems.append(f"README.md: {lines} lines, at most {MAX_README_LINES}")
    return problems


def names(root: Path) -> list[str]:
    """Files, classes and functions whose name says how they are built and not what they do."""
    problems = []
    for path, tree in sources(root):
        defined = [(Path(path).stem, 1), (Path(path).parent.name, 1)]
        defined += [(node.name, node.lineno) for node in _nodes(tree) if isinstance(node, ast.ClassDef)]
        defined += [(function.name, function.lineno) for function in _functions(tree)]
        is_test = Path(path).name.startswith("test_")
        for name, line in defined:
            words = {word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z0-9]+(?![a-z])", name)}
            if words & FORBIDDEN_WORDS and not (is_test and name.startswith("test_")):
                problems.append(f"{path}:{line}: the name {name}")
    return problems


def nouns(root: Path) -> list[str]:
    """Locals and parameters whose name is no noun. `left` is one beside `right`, or as a field."""
    return [f"{path}:{what}" for path, tree in sources(root) for what in _no_nouns(tree)]


def _no_nouns(tree: ast.Module) -> list[str]:
    problems = []
    for scope in (tree, *_functions(tree)):
        nodes = _nodes(scope)
        stored = {node.id: node.lineno for node in nodes if isinstance(node, ast.Name) and type(node.ctx) is ast.Store}
        stored |= {node.arg: node.lineno for node in nodes if isinstance(node, ast.arg)}
        stored |= {node.name: node.lineno for node in nodes if isinstance(node, ast.MatchAs) and node.name}
        bad = {name for name in stored if name in NO_NOUNS or (name == "left" and scope is not tree)}
        bad -= {"left"} if "right" in stored else set()
        problems += [f"{stored[name]}: the name {name}" for name in sorted(bad)]
    return [*dict.fromkeys(problems)]


def dangers(root: Path) -> list[str]:
    """Calls and modules that run code out of data, and sleeping inside a test."""
    return [
        f"{path}:{line}: {what}"
        for path, tree in sources(root)
        for line, what in (*_dangers(tree, path == RUNS_CODE), *_sleeps(tree))
    ]


def _dangers(tree: ast.Module, runs_code: bool) -> Iterator[tuple[int, str]]:
    for node in _nodes(tree):
        match node:
            case ast.Call(func=ast.Name(id="compile" | "exec")) if runs_code:
                pass
            case ast.Call(func=ast.Name(id=name)) if name in FORBIDDEN_CALLS:
                yield node.lineno, f"{name}()"
            case ast.keyword(arg="shell", value=ast.Constant(value=value)) if value:
                yield node.lineno, "a shell"
            case ast.Attribute(value=ast.Name(id="yaml"), attr=name) if name in FORBIDDEN_LOADERS:
                yield node.lineno, f"yaml.{name}"
            case ast.Attribute(value=ast.Name(id=module), attr=name) if (module, name) in FORBIDDEN_ATTRIBUTES:
                yield node.lineno, f"{module}.{name}"
            case ast.Import(names=modules):
                yield from (
                    (node.lineno, f"import {alias.name}")
                    for alias in modules
                    if alias.name.split(".")[0] in FORBIDDEN_MODULES
                )
            case ast.ImportFrom(module=str(module), names=imported):
                if module.split(".")[0] in FORBIDDEN_MODULES:
                    yield node.lineno, f"import {module}"
                yield from (
                    (node.lineno, f"{module}.{alias.name}")
                    for alias in imported
                    if (module, alias.name) in FORBIDDEN_ATTRIBUTES
                )


def headers(root: Path) -> list[str]:
    """Names of Sluicegate's headers that are written elsewhere than in the file that holds them. Docstrings may name
    them."""
    holder = root / HEADERS
    texts = [text for _, text in _texts(_parsed(holder.read_text(), str(holder)))] if holder.exists() else []
    named = sorted(
        {name for text in texts for name in re.findall(r"\bsluicegate-[a-z-]*", text)}, key=len, reverse=True
    )
    name = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, named))})(?![\w])") if named else None
    return [
        f"{path}:{line}: {HEADERS} holds the names of headers, such as {match.group()}"
        for path, tree in sources(root)
        if name is not None and path.split("/")[0] == "streams" and path != HEADERS
        for line, text in _texts(tree)
        if (match := name.search(text))
    ]


def _texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The texts of a file but for its docstrings."""
    docstrings = {id(node.value) for node in _nodes(tree) if isinstance(node, ast.Expr)}
    for node in _nodes(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value


def switches(root: Path) -> list[str]:
    """Names and texts of the product that say that a protection can be turned off."""
    problems = []
    for path in (path for package in PACKAGES for path in files(root / package)):
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if SWITCH.search(line):
                problems.append(f"{path.relative_to(root)}:{number}: a protection is never turned off: {line.strip()}")
    return problems


def types(root: Path) -> list[str]:
    """Classes and type aliases of the product whose name another one has: one name means one thing. The classes that
    programs import from `sluicegate` have the names of the values that they become."""
    lines: dict[str, list[str]] = {}
    for package in PACKAGES:
        for path, tree in sources(root / package):
            for node in tree.body:
                for name in _type_names(node):
                    if package == "streams" and path.startswith("app/") and name in ("App", "Agent"):
                        continue
                    lines.setdefault(name, []).append(f"{package}/{path}:{node.lineno}")
    return [
        f"{places[1]}: the type name {name} is taken by {places[0]}"
        for name, places in lines.items()
        if len(places) > 1
    ]


def _type_names(node: ast.stmt) -> list[str]:
    """Names with capitals and small letters: constants have capitals only."""
    match node:
        case ast.ClassDef(name=name):
            names = [name]
        case ast.Assign(targets=targets):
            names = [target.id for target in targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            names = [name]
        case _:
            names = []
    return [name for name in names if name.lstrip("_")[:1].isupper() and not name.isupper() and len(name) > 1]


def _sleeps(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for test in _functions(tree):
        for node in _nodes(test) if test.name.startswith("test_") else ():
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="time" | "asyncio"), attr="sleep")):
                    yield node.lineno, f"{test.name} sleeps: wait for a condition (tests.waiting)"


def hosts(root: Path, here: Path | None = None) -> list[str]:
    """Text files that name a package registry's host, or a folder of the machine they were written on (`here`). Cargo
    writes the name of its own registry into every lock."""
    forbidden = {host: re.compile(rf"\b{re.escape(host)}\b") for host in REGISTRY_HOSTS}
    if here is not None:
        forbidden[str(here)] = re.compile(re.escape(str(here)))
    problems = []
    for path in files(root):
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        if path.name == "Cargo.lock":
            text = text.replace("registry+https://github.com/rust-lang/crates" + ".io-index", "")
        problems += [
            f"{path.relative_to(root)}: names {match.group()}"
            for name, pattern in forbidden.items()
            if name in text  # much faster than the pattern
            for match in pattern.finditer(text)
        ]
    return problems


def references(root: Path) -> list[str]:
    """Documents and numbers that prose refers to and that the repository does not hold."""
    problems = []
    for path in files(root):
        if path.suffix not in (".py", ".md", ".txt", ".yaml"):
            continue
        for number, text in _prose(path):
            matches = [name for name in DOCUMENT.findall(text) if not _is_held(root, path, name)]
            matches += NUMBER_ELSEWHERE.findall(text)
            problems += [f"{path.relative_to(root)}:{number}: the repository does not hold {name}" for name in matches]
    return problems


def _prose(path: Path) -> Iterator[tuple[int, str]]:
    """The comments and docstrings of a Python file, or the lines of another file, with their line numbers. Of a Python
    file without any such name there is nothing."""
    text = path.read_text()
    if path.suffix != ".py":
        yield from enumerate(text.splitlines(), 1)
        return
    if not DOCUMENT.search(text) and not NUMBER_ELSEWHERE.search(text):
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and token.string.startswith('"""')):
            yield from enumerate(token.string.splitlines(), token.start[0])


def _is_held(root: Path, path: Path, name: str) -> bool:
    return any(folder.joinpath(name).exists() for folder in (root, path.parent))


def links(root: Path) -> list[str]:
    """Relative links of the README and of docs/ that lead to no file."""
    problems = []
    for path in (root / "README.md", *files(root / "docs", "*.md")):
        for number, line in enumerate(path.read_text().splitlines() if path.exists() else (), 1):
            targets = (target.partition("#")[0] for target in LINK.findall(line) if "://" not in target)
            problems += [
                f"{path.relative_to(root)}:{number}: no file {target}"
                for target in targets
                if target and not path.parent.joinpath(target).exists()
            ]
    return problems


def circles(root: Path, known: Sequence[set[str]] = CIRCLES) -> list[str]:
    """Files of the product that import each other in a circle which is not in CIRCLES, and entries of CIRCLES that are
    no circle any more."""
    imported = {path: _imported_files(root, path, tree) for path, tree in _product(root)}
    reached = {path: _reached(path, imported) for path in imported}
    every = {
        frozenset({path, *(other for other in there if path in reached.get(other, ()))})
        for path, there in reached.items()
        if path in there
    }
    real = [circle for circle in every if len(circle) > 1]
    fresh = [circle for circle in real if circle not in known]
    gone = [circle for circle in known if circle not in real and min(circle) in imported]
    problems = [f"{min(circle)}: a circle of imports: {', '.join(sorted(circle))}" for circle in fresh]
    return problems + [f"tests/house.py: CIRCLES: no circle any more: {', '.join(sorted(circle))}" for circle in gone]


def _imported_files(root: Path, path: str, tree: ast.Module) -> set[str]:
    """The files of its room that the file imports."""
    module = path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    package = f"{PRODUCT}.{module if path.endswith('__init__.py') else module.rpartition('.')[0]}".rstrip(".")
    targets = (target for node, _ in _import_nodes(tree) for target in _targets(node, package, root))
    files = {f"{target.removeprefix(f'{PRODUCT}.').replace('.', '/')}.py" for target in targets} - {path}
    return {file for file in files if Path(file).parent.parts[:2] == Path(path).parent.parts[:2]}


def _reached(path: str, imported: Mapping[str, Collection[str]]) -> set[str]:
    """The files that this one leads to."""
    reached: set[str] = set()
    waiting = [path]
    while waiting:
        fresh = {file for file in imported.get(waiting.pop(), ()) if file not in reached}
        reached |= fresh
        waiting += fresh
    return reached


def imports(root: Path) -> list[str]:
    """Imports that go the wrong way between the packages, and drivers outside of their connector."""
    problems = []
    for path, tree in _product(root):
        module = path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        package = f"{PRODUCT}.{module if path.endswith('__init__.py') else module.rpartition('.')[0]}".rstrip(".")
        for node, lazy in _import_nodes(tree):
            for target in _targets(node, package, root):
                if reason := _misnamed(target) or _refusal(root, module, target.removeprefix(f"{PRODUCT}."), lazy):
                    problems.append(f"{path}:{node.lineno}: imports {target}: {reason}")
    return problems


def rooms(root: Path, allowed: Mapping[str, Collection[str]] = ARROWS) -> list[str]:
    """Imports between rooms of streams/ that `allowed` does not have, and cycles of `allowed` itself.

    Every import statement counts alike: at the top of a file, inside a function (it is run later, but it still needs
    the other room) and under TYPE_CHECKING (a reader still needs the other room to understand this one).
    """
    problems = [f"the allowed directions have a cycle: {' -> '.join(cycle)}" for cycle in _cycles(allowed)]
    for path, line, room, target in room_imports(root):
        if room not in allowed:
            problems.append(f"{path}:{line}: the room {room} is not in house.ARROWS")
        elif target != COMMON and target not in allowed[room]:
            problems.append(f"{path}:{line}: the room {room} must not import the room {target}")
    return problems


def room_imports(root: Path) -> Iterator[tuple[str, int, str, str]]:
    """Each import of one room in another, as (path, line, importing room, imported room)."""
    for inner, tree in sources(root / "streams"):
        path = f"streams/{inner}"
        package = f"{PRODUCT}.{path.rpartition('/')[0].replace('/', '.')}"
        room = _room(root, path.removesuffix(".py").replace("/", ".").removesuffix(".__init__"))
        for node, _ in _import_nodes(tree):
            for target in _targets(node, package, root):
                name = target.removeprefix(f"{PRODUCT}.")
                if within(name, "streams") and (imported := _room(root, name)) != room:
                    yield path, node.lineno, room, imported


def _room(root: Path, module: str) -> str:
    """The folder below streams/ that the module is in; COMMON for a file beside the folders, and for VALUES."""
    parts = module.split(".")
    if len(parts) == 1:
        return DOOR
    return parts[1] if parts[1] != VALUES and root.joinpath(*parts[:2]).is_dir() else COMMON


def _cycles(allowed: Mapping[str, Collection[str]]) -> list[Sequence[str]]:
    """One cycle of the arrows, or none."""
    try:
        TopologicalSorter(allowed).prepare()
    except CycleError as error:
        return [error.args[1]]
    return []


@cache
def _import_nodes(tree: ast.Module) -> list[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Each import statement and whether it is run only when a function is called."""
    lazy = {id(node) for function in _functions(tree) for node in _nodes(function)}
    nodes = [node for node in _nodes(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    return [(node, id(node) in lazy) for node in nodes]


def _targets(node: ast.Import | ast.ImportFrom, package: str, root: Path) -> list[str]:
    """The modules that a statement imports, absolute; `from a import b` is a.b when b is a module of ours."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
    origin = ".".join([*parents, *([node.module] if node.module else [])])
    inner = [f"{origin}.{alias.name}" for alias in node.names]
    return [name if _is_module(root, name) else origin for name in inner]


def _is_module(root: Path, name: str) -> bool:
    path = root.joinpath(*name.removeprefix(f"{PRODUCT}.").split("."))
    return path.is_dir() or path.with_suffix(".py").exists()


def _misnamed(target: str) -> str | None:
    """An import that works only where the repository's folder is on the path."""
    return f"an installation knows it as {PRODUCT}.{target}" if within(target, *PACKAGES) else None


def within(module: str, *packages: str) -> bool:
    """Whether the module is one of the packages, or inside one."""
    return any(module == package or module.startswith(package + ".") for package in packages)


def _refusal(root: Path, module: str, target: str, lazy: bool) -> str | None:
    """Why `module` must not import `target`, or None."""
    top = target.split(".")[0]
    if top in DRIVERS:
        only = DRIVERS[max((driver for driver in DRIVERS if within(target, driver)), key=len)]
        # The door of `connectors` looks whether a driver is there, to name the extra that brings it.
        return None if within(module, only) or (module == "connectors" and lazy) else f"only {only} may"
    if top == "tests":
        return "the product does not import its tests"
    if within(module, "schemas"):
        return "schemas imports nothing of ours" if within(target, "streams", "connectors") else None
    if within(module, "streams.aggregation"):
        return _aggregation_refusal(target)
    if within(module, "streams"):
        joins = within(module, "streams.cli") or (
            lazy
            and (
                (within(module, "streams.testing") and within(target, *FOR_TESTS))
                or (module == "streams.config.checking.transport" and target == "connectors")
            )
        )
        return "only streams.cli joins the rooms" if within(target, "connectors") and not joins else None
    return _connector_refusal(root, module, target, lazy)


def _aggregation_refusal(target: str) -> str | None:
    allowed = (
        "streams.aggregation",
        "streams.contracts.values",
        "streams.contracts.record",
        "streams.errors",
        "streams.agent",
        "schemas",
    )
    allowed += ("streams.causes", "streams.expressions", "streams.formats", "streams.importing", "streams.reducers")
    allowed += ("streams.bags", "streams.reduction", "streams.topic_names", "streams.windowers")
    if within(target, *PACKAGES) and not within(target, *allowed):
        return (
            "streams.aggregation imports only values, errors, agent, record, bags, causes, expressions, formats, "
            "importing, reducers, reduction, topic names, windowers and schemas"
        )
    return "streams.aggregation is pure" if target.split(".")[0] in IMPURE_MODULES else None


def _connector_refusal(root: Path, module: str, target: str, lazy: bool) -> str | None:
    if not within(target, *PACKAGES) or within(target, *SHARED_VALUES):
        return None
    if module == "connectors":
        return (
            None
            if lazy and within(target, "connectors")
            else "connectors imports its folders only when they are asked for"
        )
    own = ".".join(module.split(".")[:2])
    # A file beside the folders is common to them; it knows no folder itself, since `own` is then the file.
    common = target.count(".") == 1 and within(target, "connectors") and not root.joinpath(*target.split(".")).is_dir()
    if common or within(target, own, "schemas"):
        return None
    return f"{own} imports only streams.contracts, errors, agent, failpoints, topic names, urls and schemas"
