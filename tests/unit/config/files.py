"""Files to load, and what loading says about them."""

from textwrap import dedent, indent

from sluicegate.streams.config import load

HEAD = """\
app: shop
kafka: {bootstrap.servers: "localhost:9092"}
store: sqlite:///state.db
dead_letters: shop.dead
"""
GOOD = (
    HEAD
    + """\
agents:
  a:
    from: orders
    aggregate: {count: 10}
    to: {topic: totals}
"""
)


def agent(text, name="a"):
    """A file whose only agent is `text`, which begins in line 7, column 5."""
    return f"{HEAD}agents:\n  {name}:\n{indent(dedent(text).strip(), '    ')}\n"


def loaded(folder, text, environ=None, **options):
    path = folder / "f.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load(path, environ or {}, **options)


def lines(problems, folder):
    """The problems as they are printed, without the folder."""
    return [str(problem).removeprefix(f"{folder}/") for problem in problems]
