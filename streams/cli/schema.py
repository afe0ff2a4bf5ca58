"""`sluicegate schema`: the JSON Schema of the file."""

from sluicegate.streams.cli.terminal.outcome import DONE


def schema() -> int:
    """Print the JSON Schema of the file, with which editors complete and check it."""
    import json

    from sluicegate.streams.config.schema import schema as made

    print(json.dumps(made(), indent=1))
    return DONE
