"""A cluster with everything installed. Components run as processes, with the arguments and identities installed."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ullage.kube.client.resource import JsonObject
from ullage.testing.controlplane import ControlPlane, GoProgram
from ullage.testing.controlplane.fixtures import program
from ullage.testing.controlplane.launcher import wait_until
from ullage.testing.controlplane.ports import PortReservation, reserve_port

PROGRAM = Path(sys.executable).with_name("ullage")
NAMESPACE = "ullage-system"
READY_SECONDS = 60.0


class CommandFailed(Exception):
    """With what it complained of."""


def run(command: Sequence[str | Path], stdin: str = "", seconds: float = 240) -> subprocess.CompletedProcess[str]:
    """Run to its end; raises CommandFailed."""
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=seconds)
    if done.returncode:
        raise CommandFailed(f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done


def ullage(plane: ControlPlane, *arguments: str) -> str:
    """Standard output of `ullage` as admin."""
    return run((PROGRAM, *arguments, "--kubeconfig", plane.kubeconfig)).stdout


def kubectl(plane: ControlPlane, *arguments: str, stdin: str = "", kubeconfig: Path | None = None) -> str:
    """Standard output of kubectl; a warning of the API server is a failure."""
    command: Sequence[str | Path] = (
        program(GoProgram.KUBECTL),
        f"--kubeconfig={kubeconfig or plane.kubeconfig}",
        *arguments,
    )
    done = run(command, stdin)
    if "Warning" in done.stderr:
        raise CommandFailed(done.stderr)
    return done.stdout


def installed_arguments(plane: ControlPlane, component: str) -> list[str]:
    """Arguments of a component as the cluster has them, with the variables Kubernetes would fill in."""
    kind = "daemonset" if component.endswith("agent") else "deployment"
    body: JsonObject = json.loads(kubectl(plane, "get", kind, f"ullage-{component}", "-n", NAMESPACE, "-o", "json"))
    container: Any = body["spec"]["template"]["spec"]["containers"][0]
    return [one.replace("$(NAMESPACE)", NAMESPACE) for one in container["args"]]


class Component:
    """One component as a process of this machine: installed arguments, own token, addresses on loopback."""

    def __init__(
        self, plane: ControlPlane, name: str, folder: Path, *, node: str = "", more: Sequence[str] = ()
    ) -> None:
        self.name = name
        self._plane = plane
        self._log = folder / f"{name}{node}.log"
        self._ports: list[PortReservation] = []
        self.probes = self.port()
        access = plane.kubeconfig_of_account(f"ullage-{name}", NAMESPACE, node)
        arguments = self._here(installed_arguments(plane, name), folder)
        self._arguments: list[str | Path] = [*arguments, *more, "--kubeconfig", access]
        self._process: subprocess.Popen[bytes] | None = None

    def replace(self, option: str, value: str) -> None:
        """Give an option another value."""
        self._arguments[self._arguments.index(option) + 1] = value

    def add(self, *arguments: str) -> None:
        """Give it more arguments."""
        self._arguments += arguments

    def remove(self, option: str) -> None:
        """Take away an option and its value, where it has them."""
        if option in self._arguments:
            place = self._arguments.index(option)
            del self._arguments[place : place + 2]

    def port(self) -> int:
        """A port that is free."""
        self._ports.append(reserve_port())
        return self._ports[-1].port

    def _here(self, arguments: list[str], folder: Path) -> list[str]:
        """The arguments with addresses on loopback, and the files that Kubernetes would mount."""
        found = list(arguments)
        if "--settings" in found:
            mounted = folder / "settings.yaml"
            path = "jsonpath={.data.settings\\.yaml}"
            mounted.write_text(kubectl(self._plane, "get", "configmap", "ullage-settings", "-n", NAMESPACE, "-o", path))
            found[found.index("--settings") + 1] = str(mounted)
        if "--listen" in found:
            found[found.index("--listen") + 1] = f"127.0.0.1:{self.probes}"
        if "--proc" in found:
            found[found.index("--proc") + 1] = "/proc"
        return found

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        for held in self._ports:
            held.release()
        if error is not None:
            sys.stderr.write(f"--- {self.name}\n{self.said()[-6000:]}\n")

    def start(self) -> None:
        """Start it, and return when it is ready."""
        with self._log.open("ab") as words:
            self._process = subprocess.Popen((PROGRAM, *self._arguments), stdout=words, stderr=subprocess.STDOUT)
        if not wait_until(self._ready, READY_SECONDS):
            raise AssertionError(f"{self.name} is not ready within {READY_SECONDS:.0f} s:\n{self.said()}")

    def _ready(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            raise AssertionError(f"{self.name} ended with {self._process.returncode}:\n{self.said()}")
        path = "healthz" if self.name == "dashboard" else "readyz"
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.probes}/{path}", timeout=1) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def terminate(self) -> None:
        """SIGTERM, as kubelet sends it; it must end cleanly."""
        assert self._process is not None
        self._process.terminate()
        code = self._process.wait(40)
        assert code == 0, f"{self.name} ended with {code}:\n{self.said()}"
        self._process = None

    def kill(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def said(self) -> str:
        """Its log."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""
