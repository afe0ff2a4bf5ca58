"""The command `sluicegate`: one file per command. A command imports what it needs when it runs."""

from sluicegate.streams.cli.workers import early  # noqa: F401 - first: it handles signals during the imports below

# isort: split
from sluicegate.streams.cli.accept_gap import accept_gap
from sluicegate.streams.cli.asyncapi import asyncapi
from sluicegate.streams.cli.audit import audit
from sluicegate.streams.cli.checking.check import check
from sluicegate.streams.cli.dead import dead
from sluicegate.streams.cli.deploying.deploy import deploy
from sluicegate.streams.cli.deploying.plan import plan
from sluicegate.streams.cli.docs import docs
from sluicegate.streams.cli.evaluate import evaluate
from sluicegate.streams.cli.explain import explain
from sluicegate.streams.cli.groups import groups
from sluicegate.streams.cli.init import init
from sluicegate.streams.cli.keys import keys
from sluicegate.streams.cli.migrate import migrate
from sluicegate.streams.cli.outbox import outbox
from sluicegate.streams.cli.parked import parked
from sluicegate.streams.cli.replaying.replay import replay
from sluicegate.streams.cli.schema import schema
from sluicegate.streams.cli.terminal.commands import Commands
from sluicegate.streams.cli.test import play_tests
from sluicegate.streams.cli.timeouts import timeouts
from sluicegate.streams.cli.topics import topics
from sluicegate.streams.cli.version import options, version
from sluicegate.streams.cli.watching.status import status
from sluicegate.streams.cli.workers.demo import demo
from sluicegate.streams.cli.workers.run import run

main = Commands(
    "sluicegate",
    "Collect N per key, or whatever came within T, then do something exactly once: Kafka streams on ordinary stores.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
main.callback()(options)
for command in (init, run, check, plan, deploy, topics, migrate, status, explain, accept_gap, audit, replay):
    main.command()(command)
for more in (docs, schema, asyncapi, demo, version):
    main.command()(more)
main.command("test")(play_tests)
main.command("eval")(evaluate)
main.add_typer(groups)
main.add_typer(timeouts)
main.add_typer(outbox)
main.add_typer(parked)
main.add_typer(dead)
main.add_typer(keys)
