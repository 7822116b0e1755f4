"""Specification of a control plane: plain data, chosen by the test."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ullage.testing.controlplane.versions import GoProgram

STANDS_ON: Mapping[GoProgram, tuple[GoProgram, ...]] = {
    GoProgram.ETCD: (),
    GoProgram.APISERVER: (GoProgram.ETCD,),
    GoProgram.CONTROLLER_MANAGER: (GoProgram.ETCD, GoProgram.APISERVER),
    GoProgram.SCHEDULER: (GoProgram.ETCD, GoProgram.APISERVER),
    GoProgram.KWOK: (GoProgram.ETCD, GoProgram.APISERVER),
    GoProgram.KARPENTER: (GoProgram.ETCD, GoProgram.APISERVER),
}
"""The programs that run, in the order they start; kubectl is no component."""

BASE = (GoProgram.ETCD, GoProgram.APISERVER)
WORKLOADS = (*BASE, GoProgram.CONTROLLER_MANAGER, GoProgram.KWOK)


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticToken:
    """A bearer token the API server knows from a file."""

    token: str
    user: str
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlaneSpec:
    """The defaults are what most tests want: an API server that takes any node and any pod, and forgets fast."""

    components: Sequence[GoProgram] = BASE
    """Components to run; those they depend on are started too."""
    extra_flags: Mapping[GoProgram, Sequence[str]] = field(default_factory=dict)
    """Appended to a component's command line, so they win over ours."""
    fsync: bool = False
    """Make etcd wait for the disk: on for benchmarks, off for tests."""
    node_lifecycle: bool = False
    """Taint and empty nodes without heartbeats, as in production; needs kubelets or KWOK."""
    service_accounts: bool = False
    """Require a pod's service account to exist; needs kube-controller-manager."""
    tokens: Sequence[StaticToken] = ()
    audit: bool = False
    """Keep a log of every request the API server answered: see `ControlPlane.audit`."""
    scheduler_config: Mapping[str, object] = field(default_factory=dict)
    """Fields of KubeSchedulerConfiguration to add to or put over ours, e.g. `profiles`."""

    def programs(self) -> tuple[GoProgram, ...]:
        """The components with everything they stand on, in starting order."""
        wanted = set(self.components)
        for component in self.components:
            wanted.update(STANDS_ON[component])
        return tuple(program for program in STANDS_ON if program in wanted)
