"""The `ullage` command: finds the verb, imports only that one, and turns every error into a sentence.

Verbs live in a module each and are imported when called, so that `ullage --help` answers at once.
"""

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from ullage import __version__
from ullage.cli.error_messages import complain
from ullage.cli.start import INTERRUPTED
from ullage.observe.log import LEVELS, configure


@dataclass(frozen=True, slots=True)
class Verb:
    """Module of a verb, and its line in `--help`."""

    module: str
    summary: str


VERBS: Mapping[str, Verb] = {
    "agent": Verb("ullage.cli.agent", "Report the GPUs of this node, until stopped."),
    "check": Verb("ullage.cli.check", "What is missing or in the way of Ullage in a cluster."),
    "chaos": Verb("ullage.cli.chaos", "Break things in a simulated cluster, and check every promise."),
    "completion": Verb("ullage.cli.completion", "Print what a shell needs to complete command lines."),
    "config": Verb("ullage.cli.config", "Settings: what there are, and whether a file is right."),
    "controller": Verb("ullage.cli.controller", "Keep pools of GPU nodes at their size, until stopped."),
    "dashboard": Verb("ullage.cli.dashboard", "The cluster live in a browser, until stopped."),
    "demo": Verb("ullage.cli.demo", "A simulated GPU cluster in this terminal."),
    "dump": Verb("ullage.cli.dump", "The cluster as ullage sees it, as JSON."),
    "explain": Verb("ullage.cli.explain", "Why a pod is where it is, or nowhere."),
    "install": Verb("ullage.cli.install", "Print or apply what a cluster needs for Ullage."),
    "plan": Verb("ullage.cli.plan", "What would be done, without doing it."),
    "record": Verb("ullage.cli.record", "What happens to a cluster, as a story for `ullage replay`."),
    "replay": Verb("ullage.cli.replay", "What would have happened to a cluster with other settings."),
    "scheduler": Verb("ullage.cli.scheduler", "Place pods on exact GPUs, until stopped."),
    "simulate": Verb("ullage.cli.simulate", "Try a policy on a workload before you pay for it."),
    "top": Verb("ullage.cli.top", "Fleet, GPUs, waste and queue, live in this terminal."),
    "uninstall": Verb("ullage.cli.uninstall", "Take Ullage out of a cluster."),
    "version": Verb("ullage.cli.version", "Versions of ullage, of Python and of the cluster."),
    "vm-agent": Verb("ullage.cli.vm_agent", "Resize the VMs of this node, until stopped."),
    "webhook": Verb("ullage.cli.webhook", "Show pods exactly their GPUs, until stopped."),
}


class Interrupted(BaseException):
    """Ctrl-C while a verb is at work. Of a KeyboardInterrupt click would print an empty line of its own."""


class Verbs(click.Group):
    """A group whose commands are imported when they are called."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stopped:
            raise Interrupted from stopped

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return sorted(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        verb = VERBS.get(cmd_name)
        if verb is None:
            return None
        command = importlib.import_module(verb.module).command
        if not isinstance(command, click.Command):
            raise TypeError(f"{verb.module}.command is not a click command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Refuse an unknown verb with the nearest one."""
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            from ullage.config.values import meant

            near = meant(args[0], tuple(VERBS))
            raise click.UsageError(f"There is no verb {args[0]}{near or '; see ullage --help'}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Verbs"):
            formatter.write_dl([(name, verb.summary) for name, verb in sorted(VERBS.items())])


EXAMPLES = """\b
Examples:
  ullage demo
  ullage version
  ullage dump --context staging --output state.json
  ullage plan schedule -f cluster.yaml
  ullage explain pod/team-a/train-0
"""


@click.group(cls=Verbs, epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ullage")
@click.option("--log-level", type=click.Choice(LEVELS), default="info", help="Least important line to log.")
@click.option(
    "--log-format",
    type=click.Choice(("auto", "console", "json")),
    default="auto",
    help="How to log to standard error: for people, as JSON, or JSON unless it is a terminal.",
)
def ullage(log_level: str, log_format: str) -> None:
    """GPU scheduling and autoscaling for Kubernetes: place, grow, shrink, drain, explain, and try it first."""
    configure(
        level=log_level, form="json" if log_format == "json" else "console" if log_format == "console" else "auto"
    )


def run(arguments: Sequence[str], *, called: str = "ullage") -> int:
    """Run one command line and return its exit code: 0 done, 1 it failed, 2 it was asked wrongly, or a verb's own."""
    try:
        code = ullage.main(list(arguments), prog_name=called, standalone_mode=False)
        sys.stdout.flush()  # here, where a reader that has gone is no error
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt, Interrupted):
        # A terminal shows ^C: the word stands on a line of its own.
        click.echo("\ninterrupted" if sys.stderr.isatty() else "interrupted", err=True)
        return INTERRUPTED
    except click.exceptions.Exit as done:
        return done.exit_code
    except BrokenPipeError:
        return _reader_gone()
    except SystemExit:
        if type(sys.stdout).__module__.startswith("click"):  # click's answer to a reader that has gone is exit code 1
            return _reader_gone()
        raise
    except Exception as error:  # noqa: BLE001 - the last resort: a sentence, never a traceback
        return complain(error, called=called)
    return code if isinstance(code, int) else 0  # click returns the code a verb exits with


def _reader_gone() -> int:
    """End without an error: the reader has seen enough. Python must not complain about it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 0


def main() -> None:
    """Entry point of `ullage` and of `kubectl ullage`."""
    plugin = os.path.basename(sys.argv[0]).startswith("kubectl-")
    sys.exit(run(sys.argv[1:], called="kubectl ullage" if plugin else "ullage"))
