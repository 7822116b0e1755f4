"""Situations of `seldom` with VMs. Nothing here runs VMs: the test says when a migration is over."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.deploy.cluster import NAMESPACE, CommandFailed, kubectl
from tests.deploy.test_story_real import NODE, VM_NODE, Story, claim, pod, pool
from tests.deploy.vm_story import VM, grow_a_vm, virtual_machine, vm_pod
from ullage.kube.write.vm import approval_annotations
from ullage.model.vm import MIGRATION_ENABLED, VmAmounts
from ullage.testing.builders import a_node
from ullage.testing.controlplane.components import KWOK_NODE_ANNOTATION

OTHER_VM_NODE = "vms-2"
QUICK_DRAINS = {"maxVmMigrationTime": "4s", "scaleDownDelayAfterFailure": "1s"}
QUICK_VMS = {"pressureSustained": "1s", "migrationCooldown": "1s"}
NEXT = "vm-2"


@contextmanager
def vms_under_pressure(story: Story) -> Iterator[None]:
    """VMs of a node use more than its watermark: one leaves for another node, and its migration is cleared away."""
    grow_a_vm(story, story.guest, story.vm_ports, VM_NODE)
    _second_node(story)
    kubectl(story.plane, "label", "virtualmachine", VM, "-n", "default", f"{MIGRATION_ENABLED}=true")
    _watermark(story, 0.05)
    story.until("a VM leaves", lambda: bool(_migrations(story, VM)), 60)
    _watermark(story, 0.9)  # or it would be moved again: it says that it has moved, and stays
    _ended(story, VM)
    story.until("its migration is cleared away", lambda: not _migrations(story, VM), 60)
    story.guest.load = 0.1  # it shrinks: the scheduler reads it afresh before it takes anything back
    yield
    kubectl(story.plane, "delete", "configmap", "vm-nodes", "-n", NAMESPACE)


@contextmanager
def vms_on_a_node_that_goes(story: Story) -> Iterator[None]:
    """A node with a VM is drained. Two migrations take too long, which is told in one Event; then the VM only says it
    has moved, and stays."""
    _second_node(story)
    story.apply(pool("vms"), claim("wide", 8), claim("more", 8), pod("wide"), pod("more"))
    story.until("a node is bought", lambda: story.bound("wide", "more"))
    bought = story.node_of("more") if story.node_of("wide") == NODE else story.node_of("wide")
    body, runner = virtual_machine(NEXT), vm_pod(NEXT)
    runner["spec"] |= {"nodeName": bought, "tolerations": [{"operator": "Exists"}]}
    runner["metadata"]["annotations"] = approval_annotations(VmAmounts(1000, 4 << 30))
    body["metadata"]["labels"][MIGRATION_ENABLED] = "true"
    story.apply(body, runner)
    kubectl(story.plane, "delete", "pod", "wide", "more", "-n", "default", "--wait=true")
    story.until("two migrations were cancelled", lambda: _cancelled(story) >= 2, 120)
    _ended(story, NEXT)
    yield


def _second_node(story: Story) -> None:
    """A place to go to, for VMs that tolerate no GPU node."""
    node = {"apiVersion": "v1", "kind": "Node", **a_node(OTHER_VM_NODE)}
    node["metadata"]["annotations"] = dict([KWOK_NODE_ANNOTATION])
    story.apply(node)


def _watermark(story: Story, cpu: float) -> None:
    """VMs leave the first VM node above this part of its CPU."""
    usual = {
        "cpu": {"watermark": 0.9, "system": "1"},
        "memory": {"watermark": 0.9, "system": "1Gi"},
        "computeUnit": {"vCPUs": 1, "mem": 4},
    }
    here = {**usual, "cpu": {"watermark": cpu, "system": "1"}}
    config = {"nodeDefaults": usual, "nodeOverrides": [{"nodes": [VM_NODE], "config": here}]}
    meta = {"name": "vm-nodes", "namespace": NAMESPACE}
    data = {"config.json": json.dumps(config)}
    story.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data})


def _migrations(story: Story, vm: str) -> list[Any]:
    made = story.get("virtualmachinemigrations", "-n", "default")["items"]
    return [one for one in made if one["spec"]["vmName"] == vm]


def _ended(story: Story, vm: str) -> None:
    """The next migration of the VM is over, by the word of whoever runs VMs."""
    over = json.dumps({"status": {"phase": "Succeeded"}})
    how = ("-n", "default", "--subresource=status", "--type=merge", "-p", over)

    def said() -> bool:
        for one in _migrations(story, vm):
            try:
                kubectl(story.plane, "patch", "virtualmachinemigration", one["metadata"]["name"], *how)
            except CommandFailed as error:
                if "(NotFound)" not in str(error):  # cancelled meanwhile: there will be another one
                    raise
            else:
                return True
        return False

    story.until(f"a migration of {vm}", said, 60)


def _cancelled(story: Story) -> int:
    return sum(
        one.verb == "delete" and one.resource == "virtualmachinemigrations" and one.user.endswith(":ullage-controller")
        for one in story.plane.audit()
    )
