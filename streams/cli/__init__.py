"""The command `sluicegate`: one file per command; what a command needs is imported when it runs."""

from streams.cli import early  # noqa: F401 - first: it handles signals during the imports below

# isort: split
import typer

from streams.cli.accept_gap import accept_gap
from streams.cli.audit import audit
from streams.cli.check import check
from streams.cli.dead import dead
from streams.cli.demo import demo
from streams.cli.explain import explain
from streams.cli.groups import groups
from streams.cli.listing import Listing
from streams.cli.migrate import migrate
from streams.cli.outbox import outbox
from streams.cli.parked import parked
from streams.cli.replay import replay
from streams.cli.run import run
from streams.cli.status import status
from streams.cli.test import play_tests
from streams.cli.timeouts import timeouts
from streams.cli.topics import topics
from streams.cli.version import options, version

main = typer.Typer(
    name="sluicegate",
    cls=Listing,
    help="Collect N per key, or whatever came within T, then do something exactly once: Kafka streams on ordinary stores.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
main.callback()(options)
for command in (run, check, topics, migrate, status, explain, accept_gap, audit, replay, demo, version):
    main.command()(command)
main.command("test")(play_tests)
main.add_typer(groups)
main.add_typer(timeouts)
main.add_typer(outbox)
main.add_typer(parked)
main.add_typer(dead)
