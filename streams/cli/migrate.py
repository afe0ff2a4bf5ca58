"""`sluicegate migrate`: create or upgrade the store's schema."""

from typing import Annotated

import typer

from sluicegate.streams.cli.opening.files import connected, loaded
from sluicegate.streams.cli.terminal.outcome import DONE
from sluicegate.streams.cli.terminal.output import print_json
from sluicegate.streams.cli.terminal.parameters import AsJson, FileArgument


def migrate(
    file: FileArgument,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")] = False,
    json: AsJson = False,
) -> int:
    """Create or upgrade the schema of the store. A schema that is up to date stays as it is."""
    from sluicegate.streams.cli.opening.waiting import store_of, wait_for

    app = loaded(file)
    with connected(app) as store:
        steps = wait_for(app.start_timeout, lambda: store.migrate(dry_run=dry_run), system=store_of(app))
    if json:
        print_json({"dry_run": dry_run, "steps": steps})
        return DONE
    for step in steps:
        print(f"{'would do' if dry_run else 'done'}: {step}")
    if not steps:
        print("nothing to migrate")
    return DONE
