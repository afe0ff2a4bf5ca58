"""How every command ends: 0 done, 1 unexpected, 2 file or usage, 3 a system, 5 refused because it was done before.

An error is one line on stderr. 4 is left to commands that judge a change.
"""

import os
import sys
import traceback
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import typer

from sluicegate.streams.cli import extras

P = ParamSpec("P")

DONE, UNEXPECTED, USAGE, SYSTEM, DONE_BEFORE = 0, 1, 2, 3, 5
DEBUG = "SLUICEGATE_LOG_LEVEL"


def ending(command: Callable[P, int]) -> Callable[P, None]:
    """The command with its exit code: what it returns, or what the error that it raised means."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        raise typer.Exit(_code(lambda: command(*args, **kwargs)))

    run.__annotations__["return"] = None
    return run


def _code(command: Callable[[], int]) -> int:
    from sluicegate.streams.errors import ConfigurationError, Fenced, Halt, PersistenceError, SystemNotReady

    try:
        return command()
    except (typer.Exit, typer.Abort):
        raise
    except ConfigurationError as error:
        return failed(str(error), USAGE)
    except (SystemNotReady, PersistenceError, Halt) as error:
        return failed(str(error), SYSTEM)
    except Fenced as error:
        return failed(
            f"somebody else came in between ({error}): what is not done yet was not done; do it again", SYSTEM
        )
    except KeyboardInterrupt:
        return failed("interrupted", UNEXPECTED)
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        return DONE
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and (text := extras.remedy(error)):
            return failed(text, USAGE)
        if debugging():
            complain(masked(traceback.format_exc()))
        return failed(f"unexpected {type(error).__name__}: {error}; {DEBUG}=debug shows where", UNEXPECTED)


def masked(text: str) -> str:
    """As sluicegate.streams.observe.logs.masked, imported only when there is something to say."""
    from sluicegate.streams.observe import logs

    return logs.masked(text)


def debugging() -> bool:
    return os.environ.get(DEBUG, "").lower() == "debug"


def failed(text: str, code: int) -> int:
    """Say it in one line on stderr, without the passwords of addresses."""
    complain(f"sluicegate: {masked(' '.join(text.split()))}")
    return code


def complain(line: str) -> None:
    print(line, file=sys.stderr)
