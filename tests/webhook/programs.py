"""`ullage webhook` as a program, and who is who on the control plane it serves."""

import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from ullage.testing.controlplane import ControlPlane, GoProgram
from ullage.testing.controlplane.binaries import find
from ullage.testing.controlplane.launcher import wait_until
from ullage.testing.controlplane.ports import PortReservation, reserve_port

PROGRAM = Path(sys.executable).with_name("ullage")
SCHEDULER = "system:serviceaccount:ullage-system:ullage-scheduler"
WEBHOOK = "system:serviceaccount:ullage-system:ullage-webhook"
DEPLOY = Path(__file__).parents[2] / "deploy" / "webhook"
READY_SECONDS = 30.0
_ADMINS = ["system:masters"]


class Site:
    """A control plane with its users, and ports nobody else takes."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.alice = plane.kubeconfig_for("alice", _ADMINS)
        self.scheduler = plane.kubeconfig_for(SCHEDULER, _ADMINS)
        self.webhook = plane.kubeconfig_for(WEBHOOK)
        """May do what `deploy/webhook/rbac.yaml` says."""
        self._ports: list[PortReservation] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for port in self._ports:
            port.release()

    def port(self) -> int:
        """One that is free."""
        self._ports.append(reserve_port())
        return self._ports[-1].port

    def kubectl(self, *arguments: str, kubeconfig: Path | None = None, stdin: str = "") -> str:
        """What it says; fails with its complaint."""
        command = [str(find(GoProgram.KUBECTL)), f"--kubeconfig={kubeconfig or self.alice}", *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=60)
        if done.returncode:
            raise KubectlFailed(done.stderr)
        return done.stdout


class KubectlFailed(Exception):
    """With what it complained of."""


class WebhookProgram:
    """Started with the block and ended with it."""

    def __init__(self, site: Site, folder: Path, *options: str) -> None:
        self.port, self.probes = site.port(), site.port()
        self._site = site
        self._log = folder / f"webhook-{self.port}.log"
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        sys.stderr.write(self.said())  # pytest shows it beside a failure
        subprocess.run((PROGRAM, "webhook", "--remove", "--kubeconfig", self._site.alice), check=True)

    def start(self) -> None:
        """Returns when it is ready."""
        here = ("--address", f"127.0.0.1:{self.port}", "--listen", f"127.0.0.1:{self.probes}", "--drain", "0")
        url = ("--url", f"https://127.0.0.1:{self.port}")
        subprocess.run((PROGRAM, "webhook", "--install", *url, "--kubeconfig", self._site.alice), check=True)
        reach = (*url, "--kubeconfig", str(self._site.webhook))
        with self._log.open("ab") as words:
            command: Sequence[str | Path] = (PROGRAM, "webhook", *here, *reach, *self._options)
            self._process = subprocess.Popen(command, stdout=words, stderr=subprocess.STDOUT)
        if not wait_until(self._ready, READY_SECONDS):
            self.kill()
            raise AssertionError(f"not ready within {READY_SECONDS:.0f} s:\n{self.said()}")

    def _ready(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            raise AssertionError(f"ended with {self._process.returncode}:\n{self.said()}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.probes}/readyz", timeout=1) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def kill(self) -> None:
        """SIGKILL: no clean-up of its own."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def terminate(self) -> int:
        """SIGTERM; returns its exit code."""
        assert self._process is not None
        self._process.terminate()
        code = self._process.wait(15)
        self._process = None
        return code

    def reviews(self) -> int:
        """How many it has answered so far."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.probes}/metrics", timeout=5) as answer:
            text = answer.read().decode()
        counts = re.findall(r"^ullage_admission_reviews_total\{.*\} (.+)$", text, re.MULTILINE)
        return int(sum(float(count) for count in counts))

    def said(self) -> str:
        """Its log."""
        return self._log.read_text() if self._log.exists() else ""
