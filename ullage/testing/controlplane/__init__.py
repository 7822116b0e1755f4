"""A real Kubernetes control plane without containers: built from source, run on loopback, gone with the test run.

`ControlPlane(ControlPlaneSpec(...))` runs any subset of etcd, kube-apiserver, kube-controller-manager, kube-scheduler,
the KWOK controller and Karpenter. `fixtures` is the pytest plugin, `python -m ullage.testing.controlplane` the command.
"""

from ullage.testing.controlplane.binaries import MissingProgram
from ullage.testing.controlplane.certificates import EXPIRED, Validity
from ullage.testing.controlplane.launcher import ControlPlane, DidNotStart
from ullage.testing.controlplane.spec import BASE, WORKLOADS, ControlPlaneSpec, StaticToken
from ullage.testing.controlplane.versions import GoProgram

__all__ = [
    "BASE",
    "EXPIRED",
    "WORKLOADS",
    "ControlPlane",
    "ControlPlaneSpec",
    "DidNotStart",
    "GoProgram",
    "MissingProgram",
    "StaticToken",
    "Validity",
]
