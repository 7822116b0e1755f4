"""`python -m ullage.testing.controlplane`: build the programs, say where they are, run a control plane by hand."""

import argparse
import signal
import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType

from ullage.errors import UllageError
from ullage.testing.controlplane import BASE, ControlPlane, ControlPlaneSpec, GoProgram, binaries
from ullage.testing.controlplane.build import build
from ullage.testing.controlplane.spec import STANDS_ON
from ullage.testing.controlplane.versions import VERSIONS

EXAMPLES = """\
examples:
  python -m ullage.testing.controlplane build
      build what is missing into the per-user cache; about 10 minutes the first time, then nothing to do
  python -m ullage.testing.controlplane build etcd kube-apiserver
      only what most tests need
  python -m ullage.testing.controlplane where
      print where each program is
  python -m ullage.testing.controlplane up kube-controller-manager kwok-controller
      run a cluster whose nodes need no machines; Ctrl-C ends it

environment:
  ULLAGE_CONTROLPLANE_BIN  a folder with programs to use instead of the built ones
  XDG_CACHE_HOME           where the cache is (default: ~/.cache)
"""

_LOOK_SECONDS = 0.2
"""Between two looks whether a signal has come."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except UllageError as error:
        sys.stderr.write(f"controlplane: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\ncontrolplane: interrupted; what is finished is kept\n")
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m ullage.testing.controlplane",
        description="A real Kubernetes control plane without containers, for tests.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    every = [program.value for program in GoProgram]
    for name, command, text in (
        ("build", _build, "build the programs that are not built yet"),
        ("where", _where, "print the path of each program"),
    ):
        sub = commands.add_parser(name, help=text, description=text)
        choices = f"which programs (default: all): {', '.join(every)}"
        sub.add_argument("programs", nargs="*", metavar="PROGRAM", type=_one_of(every), help=choices)
        sub.set_defaults(command=command)

    text = "run a control plane until Ctrl-C"
    up = commands.add_parser("up", help=text, description=text)
    running = [program.value for program in STANDS_ON]
    choices = f"which components (default: etcd kube-apiserver): {', '.join(running)}"
    up.add_argument("programs", nargs="*", metavar="COMPONENT", type=_one_of(running), help=choices)
    up.add_argument("--fsync", action="store_true", help="let etcd wait for the disk, as in production")
    up.add_argument(
        "--node-lifecycle",
        action="store_true",
        help="taint and empty nodes without heartbeats, as in production",
    )
    up.set_defaults(command=_up)
    return parser


def _one_of(names: Sequence[str]) -> Callable[[str], GoProgram]:
    def program(text: str) -> GoProgram:
        if text not in names:
            raise argparse.ArgumentTypeError(f"no such program {text!r}; choose from {', '.join(names)}")
        return GoProgram(text)

    return program


def _build(options: argparse.Namespace) -> int:
    programs = [program for program in GoProgram if program in options.programs] or list(GoProgram)
    build(programs, _say)
    return 0


def _where(options: argparse.Namespace) -> int:
    missing = 0
    for program in options.programs or list(GoProgram):
        try:
            _say(f"{program.value:24} {binaries.find(program)}\n")
        except binaries.MissingProgram:
            missing += 1
            _say(f"{program.value:24} missing\n")
    _say("".join(f"{module} {version}\n" for module, version in VERSIONS.items()))
    if missing:
        sys.stderr.write(f"controlplane: {missing} missing; run `make controlplane` to build them\n")
    return 1 if missing else 0


def _up(options: argparse.Namespace) -> int:
    # Not a threading.Event: its lock is not reentrant, and a signal that comes while `wait` holds it hangs for ever.
    over: list[int] = []

    def end(number: int, _: FrameType | None) -> None:
        over.append(number)

    spec = ControlPlaneSpec(
        components=options.programs or BASE, fsync=options.fsync, node_lifecycle=options.node_lifecycle
    )
    signal.signal(signal.SIGTERM, end)
    with ControlPlane(spec) as plane:
        signal.signal(signal.SIGINT, end)
        _say(f"{', '.join(plane.programs)} are ready at {plane.server}\n")
        _say(f"logs:       {plane.folder}\n")
        _say(f"kubeconfig: {plane.kubeconfig}\n")
        _say(f"try:        {_kubectl()} --kubeconfig {plane.kubeconfig} get namespaces\n")
        _say("Ctrl-C ends it.\n")
        while not over:
            time.sleep(_LOOK_SECONDS)
    return 0


def _kubectl() -> str:
    try:
        return str(binaries.find(GoProgram.KUBECTL))
    except binaries.MissingProgram:
        return "kubectl"


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
