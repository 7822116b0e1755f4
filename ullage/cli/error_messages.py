"""Errors as sentences: what went wrong and what to do next, on standard error."""

import errno
import os
import traceback

import click

from ullage import errors

# Unreachable and Unauthorized come with their own advice: only the transport knows what exactly went wrong.
_NEXT: tuple[tuple[type[Exception], str], ...] = (
    (errors.Forbidden, "ask for a role that allows it, or use another --context"),
    (errors.Unreadable, "check that the server address is a Kubernetes API server and not a proxy's page"),
    (errors.NotFound, "check the name, and that the custom resources are installed"),
    (errors.TooManyRequests, "wait a moment and run it again"),
    (errors.ServerFailure, "look at the API server's log, then run it again"),
)


def complain(error: Exception, *, called: str = "ullage") -> int:
    """Print the error in one sentence and return the exit code. `ULLAGE_TRACEBACK=1` prints the traceback, too."""
    if os.environ.get("ULLAGE_TRACEBACK"):
        click.echo("".join(traceback.format_exception(error)), err=True)
    click.echo(f"{called}: {sentence(error)}", err=True)
    return 1


def sentence(error: Exception) -> str:
    """Return the error message for the user."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, errors.UserError):
        return str(error)
    if isinstance(error, errors.ApiError):
        step = next((step for kind, step in _NEXT if isinstance(error, kind)), "")
        return f"{error}; {step}" if step else str(error)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the output cannot be written ({error.strerror}); free some space and run it again"
    name = type(error).__name__
    return f"this should not happen ({name}: {error}); set ULLAGE_TRACEBACK=1, run it again, and report what it prints"
