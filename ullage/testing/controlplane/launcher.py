"""Starts and stops one control plane on loopback.

Everything here blocks: from a coroutine call it through `asyncio.to_thread`. A control plane never outlives the process
that started it, not even one ended by SIGKILL (see `watchdog.py`).
"""

import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Self

from ullage.errors import UllageError
from ullage.testing.controlplane import binaries
from ullage.testing.controlplane.audit import AuditedRequest, read_audit
from ullage.testing.controlplane.certificates import CertificateAuthority, Validity
from ullage.testing.controlplane.components import Launch, launch_of
from ullage.testing.controlplane.ports import PortReservation, reserve_port
from ullage.testing.controlplane.probe import Probe, account_token, crd_is_served, create_crds
from ullage.testing.controlplane.processes import Processes, last_lines
from ullage.testing.controlplane.site import (
    ADMIN,
    ADMIN_GROUP,
    ControlPlaneSite,
    Ports,
    certificate_credentials,
    furnish,
    write_kubeconfig,
)
from ullage.testing.controlplane.spec import BASE, ControlPlaneSpec, StaticToken
from ullage.testing.controlplane.versions import GoProgram

READY_WITHIN_SECONDS = 60.0
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.01, 0.25
PORT_ATTEMPTS = 3
ADDRESS_IN_USE = "address already in use"


class DidNotStart(UllageError):
    """A component ended, or was not ready in time. The message carries the end of its log, `log` is all of it."""

    def __init__(self, message: str, log: Path) -> None:
        super().__init__(message)
        self.log = log


class NotStarted(UllageError):
    """Raised when a control plane is used before its start."""


@dataclass(frozen=True, slots=True)
class RunningPlane:
    """Folder, processes, certificates and ports of a started control plane; each start gets new ones."""

    site: ControlPlaneSite
    processes: Processes
    authority: CertificateAuthority
    probe: Probe
    reservations: tuple[PortReservation, ...]

    @classmethod
    def build(cls, tokens: Sequence[StaticToken]) -> Self:
        """Ports, the watchdog with its folder, and the folder's certificates and kubeconfig."""
        reservations = tuple(reserve_port() for _ in fields(Ports))
        processes = Processes()
        try:
            site = ControlPlaneSite(processes.folder, Ports(*(held.port for held in reservations)))
            authority = CertificateAuthority()
            furnish(site, authority, tokens)
            probe = Probe(site.ca, authority.client(ADMIN, [ADMIN_GROUP]), site.folder)
        except BaseException:
            processes.close()
            raise
        return cls(site, processes, authority, probe, reservations)

    def raze(self) -> None:
        """End every component, remove the folder, give the ports back."""
        self.processes.close()
        for held in self.reservations:
            held.release()


class ControlPlane:
    """A running control plane, or one about to run: `with ControlPlane(spec) as plane: ...`."""

    def __init__(self, spec: ControlPlaneSpec | None = None) -> None:
        self.spec = spec or ControlPlaneSpec()
        self.programs = self.spec.programs()
        binaries.find_all(self.programs)
        self._plane: RunningPlane | None = None
        self._pids: dict[GoProgram, int] = {}
        self._users = 0

    def __enter__(self) -> Self:
        self.start_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def server(self) -> str:
        """The API server's URL."""
        return self._running.site.server

    @property
    def etcd(self) -> str:
        """etcd's client URL, for tests that compact its history."""
        return self._running.site.etcd

    @property
    def ca(self) -> Path:
        """The certificate authority every server of this control plane is signed by."""
        return self._running.site.ca

    @property
    def kubeconfig(self) -> Path:
        """The admin's kubeconfig."""
        return self._running.site.admin_kubeconfig

    @property
    def folder(self) -> Path:
        """The temporary folder of this control plane; gone after `stop`."""
        return self._running.site.folder

    @property
    def probe(self) -> Probe:
        """A blocking look at the servers, as admin."""
        return self._running.probe

    def pid(self, program: GoProgram) -> int:
        """The process id of a component that was started."""
        return self._pids[program]

    def log(self, program: GoProgram) -> Path:
        """The component's log; a restart appends to it."""
        return self._running.site.log(program)

    def is_running(self, program: GoProgram) -> bool:
        """True if the component was started and has not ended."""
        return program in self._pids and self._running.processes.exit_code(program) is None

    def kubeconfig_for(self, user: str, groups: Sequence[str] = (), validity: Validity | None = None) -> Path:
        """A kubeconfig with a client certificate for another user; RBAC gives a new one nothing."""
        return self._write_user(certificate_credentials(self._running.authority.client(user, groups, validity)))

    def kubeconfig_with_token(self, token: str) -> Path:
        """A kubeconfig with a bearer token: one of the spec's static tokens, or a wrong one."""
        return self._write_user({"token": token})

    def kubeconfig_of_account(self, name: str, namespace: str, node: str = "") -> Path:
        """A kubeconfig with a token of a service account, as kubelet gets one for a pod on a node."""
        return self.kubeconfig_with_token(account_token(self.probe, self.server, (namespace, name), node))

    def audit(self) -> list[AuditedRequest]:
        """Every request answered so far; needs `audit` in the spec."""
        return list(read_audit(self._running.site.audit_log))

    def start_all(self) -> None:
        """Start every component and wait until each is ready; a port taken meanwhile means other ports."""
        for attempts_left in reversed(range(PORT_ATTEMPTS)):
            self._plane = RunningPlane.build(self.spec.tokens)
            try:
                self._start_in_order()
                return
            except DidNotStart as failure:
                self.stop()
                if attempts_left == 0 or ADDRESS_IN_USE not in str(failure):
                    raise
                failure.log.unlink()
            except BaseException:
                self.stop()
                raise

    def start(self, program: GoProgram) -> None:
        """Start one component, one of the spec's after `kill` or any other; returns when it is ready.

        After `kill` it has its old port and its old data.
        """
        self._await_ready(program, self._launch(program))

    def kill(self, program: GoProgram) -> None:
        """End a component with SIGKILL, as a crash does; returns when it is gone."""
        self._running.processes.send_signal(program, signal.SIGKILL)

    def pause(self, program: GoProgram) -> None:
        """Freeze a component: its connections stay open and nothing answers."""
        self._running.processes.send_signal(program, signal.SIGSTOP)

    def resume(self, program: GoProgram) -> None:
        """Let a frozen component go on."""
        self._running.processes.send_signal(program, signal.SIGCONT)

    def stop(self) -> None:
        """End every component and remove the folder. Calling it again does nothing."""
        if self._plane is not None:
            self._plane.raze()
        self._pids.clear()

    @property
    def _running(self) -> RunningPlane:
        if self._plane is None:
            raise NotStarted("this control plane has not been started; call start_all() first")
        return self._plane

    def _start_in_order(self) -> None:
        foundation = [program for program in self.programs if program in BASE]
        others = [program for program in self.programs if program not in BASE]
        # kube-apiserver waits for etcd by itself, so both may start at once; the others wait for nobody.
        for group in (foundation, others):
            launches = [(program, self._launch(program)) for program in group]
            for program, launch in launches:
                self._await_ready(program, launch)

    def _launch(self, program: GoProgram) -> Launch:
        plane = self._running
        if program is GoProgram.KARPENTER:
            self._install_karpenter_crds()
        launch = launch_of(program, plane.site, self.spec)
        command = [str(binaries.find(program)), *launch.arguments]
        log = plane.site.log(program)
        self._pids[program] = plane.processes.start(program, command, log=log, environment=launch.environment)
        return launch

    def _await_ready(self, program: GoProgram, launch: Launch) -> None:
        def is_ready() -> bool:
            code = self._running.processes.exit_code(program)
            if code is not None:
                raise self._failure(program, f"ended with exit code {code}")
            return self._says_ready(program, launch)

        if not wait_until(is_ready, READY_WITHIN_SECONDS):
            raise self._failure(program, f"was not ready within {READY_WITHIN_SECONDS:.0f} s")

    def _says_ready(self, program: GoProgram, launch: Launch) -> bool:
        if not self.probe.is_ready(launch.ready_url):
            return False
        if program is not GoProgram.APISERVER:
            return True
        # /readyz may say ok a moment before the first namespaces are written.
        return self.probe.is_ready(f"{self.server}/api/v1/namespaces/default")

    def _install_karpenter_crds(self) -> None:
        names = create_crds(self.probe, self.server, binaries.karpenter_crds())
        if not wait_until(
            lambda: all(crd_is_served(self.probe, self.server, name) for name in names), READY_WITHIN_SECONDS
        ):
            raise self._failure(GoProgram.APISERVER, "does not serve Karpenter's CRDs")

    def _failure(self, program: GoProgram, what: str) -> DidNotStart:
        # The folder goes away with the control plane: keep the log where it can be read.
        kept = Path(tempfile.gettempdir()) / f"{self.folder.name}-{program}.log"
        shutil.copyfile(self.log(program), kept)
        end = "\n  ".join(last_lines(kept))
        return DidNotStart(f"{program} {what}; the end of its log ({kept}):\n  {end}", kept)

    def _write_user(self, credentials: Mapping[str, object]) -> Path:
        self._users += 1
        path = self.folder / f"user-{self._users}.kubeconfig"
        write_kubeconfig(path, self._running.site, credentials)
        return path


def wait_until(holds: Callable[[], bool], seconds: float) -> bool:
    """Ask with growing pauses until it holds or the time is over."""
    deadline = time.monotonic() + seconds
    pause = FIRST_PAUSE_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)
    return True
