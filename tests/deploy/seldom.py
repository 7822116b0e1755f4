"""Rules that an ordinary day does not need, and the situation in which a test shows each in use.

A rule with `seldom` that no line here names fails `test_seldom_real`, without a control plane.
"""

from collections.abc import Mapping

BY_THE_STORY = (
    "scheduler list,watch virtualmachines.vm.neon.tech",
    "scheduler list,watch virtualmachinemigrations.vm.neon.tech",
    "scheduler list,watch configmaps",
    "scheduler create tokenreviews.authentication.k8s.io",
    "scheduler create subjectaccessreviews.authorization.k8s.io",
    "scheduler create,get,list,watch secrets",
    "scheduler create,patch configmaps",
    "scheduler get pods",
    "scheduler patch pods/status",
    "scheduler create gpuclaims.gpu.scheduling",
    "controller list,watch virtualmachines.vm.neon.tech",
    "controller list,watch virtualmachinemigrations.vm.neon.tech",
    "controller list,watch configmaps",
    "dashboard list,watch virtualmachines.vm.neon.tech",
    "dashboard list,watch virtualmachinemigrations.vm.neon.tech",
    "dashboard list,watch configmaps",
)
"""Asserted by `test_story_real`."""

BY_KARPENTER = (
    "controller get nodepools.karpenter.sh",
    "controller patch nodepools/status.karpenter.sh",
    "controller update pods/status",
    "controller delete leases.coordination.k8s.io",
)
"""Asserted by `tests/control/karpenter/test_quick_start_real.py`."""

SITUATIONS: Mapping[str, tuple[str, ...]] = {
    "kinds-of-others": (
        "scheduler list,watch podgroups.scheduling.k8s.io",
        "controller list,watch podgroups.scheduling.k8s.io",
        "dashboard list,watch podgroups.scheduling.k8s.io",
        "dashboard watch nodeclaims.karpenter.sh",
        "dashboard list,watch nodepools.karpenter.sh",
    ),
    "preemption": ("scheduler create pods/eviction",),
    "volumes": ("scheduler get,update persistentvolumeclaims", "scheduler get,patch persistentvolumes"),
    "shares": ("scheduler patch leases.coordination.k8s.io",),
    "claims-of-users": ("webhook get gpuclaims.gpu.scheduling", "webhook list pods"),
    "keys": ("webhook update secrets", "scheduler update secrets"),
    "events-that-repeat": ("scheduler patch events.events.k8s.io",),
    "pools-that-users-edit": ("controller patch nodes", "controller get nodeprovisioners.gpu.scheduling"),
    "gpus-that-fail": (
        "agent list,watch resourceslices.resource.k8s.io",
        "agent create,patch events.events.k8s.io",
        "agent get leases.coordination.k8s.io",
        "scheduler get nodes",
    ),
    "a-dra-driver": (
        "scheduler get,create,patch,delete resourceclaims.resource.k8s.io",
        "scheduler patch resourceclaims/status.resource.k8s.io",
    ),
    "vms-under-pressure": (
        "scheduler get,patch virtualmachines.vm.neon.tech",
        "scheduler get,create,delete virtualmachinemigrations.vm.neon.tech",
    ),
    "vms-on-a-node-that-goes": (
        "controller get,patch virtualmachines.vm.neon.tech",
        "controller get,create,delete virtualmachinemigrations.vm.neon.tech",
        "controller get pods",
        "controller patch events.events.k8s.io",
    ),
}
"""Rows of `test_seldom_real`, in the order of their play."""

ASKED_WITHIN_A_REQUEST = ("scheduler patch resourceclaims/binding.resource.k8s.io",)
"""The API server asks for these while it answers another request: no line of the audit log has them."""
