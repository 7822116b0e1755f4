"""What a control plane shall consist of: plain data, chosen by the test."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ullage.testing.controlplane.versions import Program

STANDS_ON: Mapping[Program, tuple[Program, ...]] = {
    Program.ETCD: (),
    Program.APISERVER: (Program.ETCD,),
    Program.CONTROLLER_MANAGER: (Program.ETCD, Program.APISERVER),
    Program.SCHEDULER: (Program.ETCD, Program.APISERVER),
    Program.KWOK: (Program.ETCD, Program.APISERVER),
    Program.KARPENTER: (Program.ETCD, Program.APISERVER),
}
"""The programs that run, in the order they start; kubectl is no component."""

BASE = (Program.ETCD, Program.APISERVER)
WORKLOADS = (*BASE, Program.CONTROLLER_MANAGER, Program.KWOK)


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticToken:
    """A bearer token the API server knows from a file."""

    token: str
    user: str
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlaneSpec:
    """The defaults are what most tests want: an API server that takes any node and any pod, and forgets fast."""

    components: Sequence[Program] = BASE
    """What to run; whatever a component stands on is started with it."""
    extra_flags: Mapping[Program, Sequence[str]] = field(default_factory=dict)
    """Appended to a component's command line, so they win over ours."""
    fsync: bool = False
    """Whether etcd waits for the disk: on for benchmarks, off for tests."""
    node_lifecycle: bool = False
    """Whether nodes without heartbeats are tainted and emptied, as in production; needs kubelets or KWOK."""
    service_accounts: bool = False
    """Whether a pod needs its service account to exist; needs kube-controller-manager."""
    tokens: Sequence[StaticToken] = ()
    scheduler_config: Mapping[str, object] = field(default_factory=dict)
    """Fields of KubeSchedulerConfiguration to add to or put over ours, e.g. `profiles`."""

    def programs(self) -> tuple[Program, ...]:
        """The components with everything they stand on, in starting order."""
        wanted = set(self.components)
        for component in self.components:
            wanted.update(STANDS_ON[component])
        return tuple(program for program in STANDS_ON if program in wanted)
