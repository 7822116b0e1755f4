"""Rights that are seldom needed, each shown in use by the component that has it, with its own token.

The situations of `seldom` are provoked one after the other on one real control plane; its audit log says whether the
right was used, and that nothing was denied.
"""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.act.storage import a_disk
from tests.deploy.cluster import NAMESPACE, CommandFailed, kubectl
from tests.deploy.device_situations import a_dra_driver, gpus_that_fail
from tests.deploy.permissions import ALL_FEATURES, declared, denied, named, unused
from tests.deploy.seldom import ASKED_WITHIN_A_REQUEST, BY_KARPENTER, BY_THE_STORY, SITUATIONS
from tests.deploy.test_story_real import DRAINING, NODE, STRICT, VM_NODE, Story, claim, pod, pool
from tests.deploy.vm_situations import (
    OTHER_VM_NODE,
    QUICK_DRAINS,
    QUICK_VMS,
    vms_on_a_node_that_goes,
    vms_under_pressure,
)
from ullage.deploy.components import COMPONENTS
from ullage.kube.auth.connect import connect
from ullage.kube.client.api import MergePatch
from ullage.kube.client.resources import NODE_PROVISIONERS, PRIORITY_CLASSES
from ullage.testing.builders import a_priority_class, a_storage_class, a_volume_claim, of_kind
from ullage.testing.controlplane import ControlPlaneSpec, GoProgram
from ullage.testing.controlplane.binaries import karpenter_crds
from ullage.testing.controlplane.fixtures import prepare
from ullage.testing.controlplane.versions import chosen_minor

REAL = (pytest.mark.real, pytest.mark.full, pytest.mark.timeout(900))
OWN_GROUPS = ("--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1beta1=true")


def test_every_seldom_rule_has_its_situation() -> None:
    """Runs without a control plane: a new rule needs a row before it needs patience."""
    situations = [line for row in SITUATIONS.values() for line in row]
    shown = named(*BY_THE_STORY, *BY_KARPENTER, *ASKED_WITHIN_A_REQUEST, *situations)
    missing = {
        str(name): [f"{one.verb} {one.resource}.{one.group} ({one.scope})" for one in sorted(left)]
        for name, spec in COMPONENTS.items()
        if (
            left := declared(spec, ALL_FEATURES, seldom=True)
            - declared(spec, ALL_FEATURES, seldom=False)
            - shown.get(str(name), set())
        )
    }
    assert not missing, f"rules that nothing shows in use; add a situation or delete them: {json.dumps(missing)}"


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """Everything installed and at work, on a cluster with the kinds of Karpenter and Kubernetes' own PodGroups."""
    if chosen_minor() != "1.37":
        pytest.skip("Kubernetes' own PodGroup is at v1beta1 since 1.37; its rules are shown there")
    programs = (GoProgram.CONTROLLER_MANAGER, GoProgram.SCHEDULER, GoProgram.KWOK)
    spec = ControlPlaneSpec(components=programs, audit=True, extra_flags={GoProgram.APISERVER: OWN_GROUPS})
    with prepare(spec) as plane, ExitStack() as stack:
        for path in karpenter_crds():
            kubectl(plane, *STRICT[:-1], str(path))
        story = Story(plane, tmp_path_factory.mktemp("seldom"), stack)
        story.install(draining={**DRAINING, **QUICK_DRAINS}, vms=QUICK_VMS)
        story.start_all()
        story.until("the agent's report", lambda: bool(story.get("gpunodestatuses")["items"]))
        yield story


@pytest.mark.parametrize("name", [pytest.param(name, id=name, marks=REAL) for name in SITUATIONS])
def test_the_right_is_used(story: Story, name: str) -> None:
    wanted = named(*SITUATIONS[name])
    before = 0 if name == "kinds-of-others" else len(story.plane.audit())
    with _cleared(story), PROVOKED[name](story):
        story.until(
            f"use of {unused(story.plane.audit()[before:], wanted, NAMESPACE)}",
            lambda: not unused(story.plane.audit()[before:], wanted, NAMESPACE),
            60,
        )
    assert denied(story.plane.audit(), NAMESPACE) == []


@contextmanager
def _cleared(story: Story) -> Iterator[None]:
    """Pods, pools and bought nodes are gone afterwards, however it ended: the rows share a cluster."""
    try:
        yield
    finally:
        kinds = "pods,gpuclaims,persistentvolumeclaims"
        kubectl(story.plane, "delete", kinds, "--all", "-n", "default", "--wait=true", "--timeout=90s")
        kubectl(story.plane, "uncordon", NODE)
        story.until("bought nodes are gone", lambda: story.nodes() <= {NODE, VM_NODE, OTHER_VM_NODE}, 60)
        kubectl(story.plane, "delete", "nodeprovisioners", "--all")


@contextmanager
def kinds_of_others(_: Story) -> Iterator[None]:
    """They were followed from the start."""
    yield


def _priorities(**values: int) -> list[dict[str, Any]]:
    return [of_kind(PRIORITY_CLASSES, a_priority_class(name, value)) for name, value in values.items()]


@contextmanager
def preemption(story: Story) -> Iterator[None]:
    """A pod of higher priority needs the room."""
    story.apply(*_priorities(low=1, high=100), claim("low", 8), claim("high", 8))
    story.apply(pod("low", priorityClassName="low"))
    story.until("the node is full", lambda: story.bound("low"))
    story.apply(pod("high", priorityClassName="high"))
    story.until("the other one goes", lambda: story.bound("high"))
    yield
    _gone(story, "high")


@contextmanager
def volumes(story: Story) -> Iterator[None]:
    """Pods whose volumes wait for them: one is a disk of the node, the other is to be made."""
    kubectl(story.plane, "label", "node", NODE, f"kubernetes.io/hostname={NODE}", "--overwrite")
    local, made = a_storage_class("local", "kubernetes.io/no-provisioner"), a_storage_class("made")
    story.apply(*({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", **one} for one in (local, made)))
    story.apply({"apiVersion": "v1", "kind": "PersistentVolume", **a_disk("disk", "local", node=NODE)})
    for name in ("local", "made"):
        body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **a_volume_claim(name, name)}
        body["metadata"]["namespace"] = "default"
        mount = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
        story.apply(body, claim(f"with-{name}", 1), pod(f"with-{name}", volumes=[mount]))
    story.until("the disk's pod is bound", lambda: story.bound("with-local"))
    yield
    _gone(story, "with-local", "with-made")


@contextmanager
def shares(story: Story) -> Iterator[None]:
    """Two pods share a GPU, and one of them goes."""
    half = {"devices": {"count": 1, "exclusivity": "Shared", "memory": "20Gi"}}
    story.apply(*({**claim(name, 1), "spec": half} for name in ("half-a", "half-b")))
    story.apply(pod("half-a"), pod("half-b"))
    story.until("both have their share", lambda: story.bound("half-a", "half-b"))
    _gone(story, "half-a")
    yield
    _gone(story, "half-b")


@contextmanager
def claims_of_users(story: Story) -> Iterator[None]:
    """A pod names a claim that is not there, and somebody edits a claim."""
    with pytest.raises(CommandFailed, match="Warning: GpuClaim default/is-not-there is not there"):
        story.apply(pod("early", claim="is-not-there"))
    _gone(story, "early")
    story.apply(claim("edited", 1))
    patch = json.dumps({"spec": {"devices": {"count": 2}}})
    kubectl(story.plane, "patch", "gpuclaim", "edited", "-n", "default", "--type=merge", "-p", patch)
    yield


@contextmanager
def keys(story: Story) -> Iterator[None]:
    """Keys that cannot be read any more are made anew."""
    for name in ("ullage-webhook-tls", "ullage-scheduler-tls"):
        patch = json.dumps({"data": {"tls.crt": "Z2FyYmFnZQ=="}})
        with pytest.raises(CommandFailed, match="Warning: tls: failed to find any PEM data"):
            kubectl(story.plane, "patch", "secret", name, "-n", NAMESPACE, "--type=merge", "-p", patch)
    yield


@contextmanager
def events_that_repeat(story: Story) -> Iterator[None]:
    """A pod waits for another reason for a while, and then for the first one again."""
    story.apply(claim("wide", 8), pod("wide"))
    story.until("the node is full", lambda: story.bound("wide"))
    story.apply(claim("waits", 8), pod("waits"))
    reasons = [_reason(story, "waits")]
    for command in ("cordon", "uncordon"):
        kubectl(story.plane, command, NODE)
        story.until("another reason", lambda: _reason(story, "waits") != reasons[-1])
        reasons.append(_reason(story, "waits"))
    yield
    _gone(story, "wide", "waits")


def _reason(story: Story, name: str) -> str:
    """First word of why the pod waits; the empty string while nobody has said it."""
    found: list[str] = []

    def said() -> bool:
        conditions = story.get("pod", name, "-n", "default")["status"].get("conditions", ())
        found[:] = [one.get("message", "") for one in conditions if one["type"] == "PodScheduled"]
        return any(found)

    story.until(f"{name} is told why it waits", said)
    return found[0]


@contextmanager
def pools_that_users_edit(story: Story) -> Iterator[None]:
    """A node loses the labels of its pool, and the pool is edited all the time."""
    story.apply(pool("edited"), claim("wide", 8), claim("more", 8), pod("wide"), pod("more"))
    story.until("a node is bought", lambda: story.bound("wide", "more"))
    for name in story.nodes() - {NODE, VM_NODE, OTHER_VM_NODE}:
        kubectl(story.plane, "label", "node", name, "gpu.scheduling/provisioner-")
    kubectl(story.plane, "delete", "pod", "more", "-n", "default", "--wait=false")
    asyncio.run(_edited_often(story.plane.kubeconfig, "edited"))
    _gone(story, "more")
    yield
    _gone(story, "wide", "more")


async def _edited_often(kubeconfig: Path, name: str) -> None:
    """Annotations that change faster than a status is written."""
    api = connect(kubeconfig)
    try:
        for number in range(600):
            patch = MergePatch({"metadata": {"annotations": {"example.com/edited": str(number)}}})
            await api.patch(NODE_PROVISIONERS, name, patch)
    finally:
        await api.close()


def _gone(story: Story, *names: str) -> None:
    kubectl(story.plane, "delete", "pod", *names, "-n", "default", "--ignore-not-found", "--wait=true")


PROVOKED: dict[str, Callable[[Story], Any]] = {
    one.__name__.replace("_", "-"): one
    for one in (
        kinds_of_others,
        preemption,
        volumes,
        shares,
        claims_of_users,
        keys,
        events_that_repeat,
        pools_that_users_edit,
        gpus_that_fail,
        a_dra_driver,
        vms_under_pressure,
        vms_on_a_node_that_goes,
    )
}
