"""The exit codes of commands. An error is one line on stderr."""

import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TextIO, cast

import typer

from sluicegate.streams.cli.opening import extras
from sluicegate.streams.wording import PrintableText

P = ParamSpec("P")

DONE, UNEXPECTED, USAGE, SYSTEM, NOT_ACCEPTED, DONE_BEFORE, KILLED, FENCED = range(8)
EXIT_CODES = {
    DONE: "Done.",
    UNEXPECTED: "An unexpected error, or a test of the file that failed.",
    USAGE: "The file or the call is invalid.",
    SYSTEM: "A system is unavailable, not migrated or too weak.",
    NOT_ACCEPTED: "A judged change has effects that the caller does not accept, or a repair left something out.",
    DONE_BEFORE: "Refused because it was done before.",
    KILLED: "`run` was stopped and killed processes that did not end in time. Nothing is lost.",
    FENCED: "`run` ended because another run has the same name (`SLUICEGATE_INSTANCE`). Nothing is lost.",
}
DEBUG = "SLUICEGATE_LOG_LEVEL"


def ending(command: Callable[P, int]) -> Callable[P, None]:
    """Wraps a command. It exits with the code that the command returns, or with the code of the error that it
    raises."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with _printable():
            raise typer.Exit(code(lambda: _call(command, *args, **kwargs)))

    run.__annotations__["return"] = None
    return run


def _call(command: Callable[P, int], *args: P.args, **kwargs: P.kwargs) -> int:
    """Calls the command. Raises ConfigurationError for an argument that is not UTF-8 text; Python represents its bytes
    as lone surrogates."""
    from sluicegate.streams.errors import ConfigurationError

    for name, value in kwargs.items():
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and any("\ud800" <= character <= "\udfff" for character in text):
                raise ConfigurationError(f"{name}: is not UTF-8 text; give it in UTF-8")
    return command(*args, **kwargs)


@contextmanager
def _printable() -> Iterator[None]:
    """Makes all output of the command printable: no key, header or topic name can control the terminal."""
    streams = sys.stdout, sys.stderr
    out, errors = cast(TextIO, PrintableText(sys.stdout)), cast(TextIO, PrintableText(sys.stderr))
    sys.stdout, sys.stderr = out, errors
    try:
        yield
    finally:
        if sys.stdout is out:  # not the stream that replaced it after a broken pipe
            sys.stdout = streams[0]
        sys.stderr = streams[1]


def code(command: Callable[[], int]) -> int:
    """The exit code that the command returns, or the code of the error that it raises. Errors are printed."""
    from sluicegate.streams.errors import ConfigurationError, Fenced, Halt, PersistenceError, SystemNotReady

    try:
        done = command()
        sys.stdout.flush()  # here, and not at the exit of Python, which has its own exit code for a closed pipe
        return done
    except (typer.Exit, typer.Abort):
        raise
    except ConfigurationError as error:
        return failed(str(error), USAGE)
    except (SystemNotReady, PersistenceError, Halt) as error:
        return failed(str(error), SYSTEM)
    except Fenced as error:
        return failed(f"another process claimed in between ({error}): the rest was not done; do it again", SYSTEM)
    except KeyboardInterrupt:
        return failed("interrupted", UNEXPECTED)
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        return DONE
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and (text := extras.remedy(error)):
            return failed(text, USAGE)
        if debugging():
            from sluicegate.streams.observe.logs import masked

            complain(masked(traceback.format_exc()))
        return failed(f"unexpected {type(error).__name__}: {error}; {DEBUG}=debug shows where", UNEXPECTED)


def debugging() -> bool:
    return os.environ.get(DEBUG, "").lower() == "debug"


def failed(text: str, code: int) -> int:
    """Prints the error in one line on stderr, without the passwords of addresses."""
    from sluicegate.streams.observe.logs import masked

    complain(f"sluicegate: {masked(' '.join(text.split()))}")
    return code


def complain(line: str) -> None:
    print(line, file=sys.stderr)
