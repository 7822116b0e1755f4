"""Situations of `seldom` with GPUs that a driver reports: one fails, and a DRA driver publishes those of a node."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from tests.agent.driver import Driver, NoCompiler, a_process, compiled, dgx_h100
from tests.agent.kubelet import Kubelet, serving
from tests.deploy.cluster import NAMESPACE, Component, kubectl
from tests.deploy.test_story_real import NODE, Story, claim, pod
from ullage.errors import Invalid
from ullage.kube.auth.connect import connect
from ullage.kube.client.api import MergePatch
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import RESOURCE_CLAIMS
from ullage.kube.read.dra import DRIVER
from ullage.state.device_columns import KIND_LABEL
from ullage.testing.builders import a_node
from ullage.testing.controlplane.components import KWOK_NODE_ANNOTATION

DRIVER_NODE = "gpu-2"
FAILS, PID = 2, 4711
STRANGER = "0b5e6d52-3a0c-4d0f-9a47-7c1f0e6f9a11"
"""Uid of a pod that is gone; a container of it runs on."""


@contextmanager
def gpus_that_fail(story: Story) -> Iterator[None]:
    """A node with a driver and a kubelet: a process comes to a GPU twice, the GPU fails, the node goes."""
    folder = story.folder / "driver"
    folder.mkdir()
    try:
        driver = Driver(compiled(folder), folder / "scenario")
    except NoCompiler as missing:
        pytest.skip(str(missing))
    driver.write(dgx_h100())
    node = {"apiVersion": "v1", "kind": "Node", **a_node(DRIVER_NODE, labels={KIND_LABEL: "leased"})}
    node["metadata"]["annotations"] = dict([KWOK_NODE_ANNOTATION])
    story.apply(node)
    try:
        with _agent(story, driver, folder):
            story.until("the agent's report", lambda: _report(story).get("healthy") == 8, 30)
            _a_stray_process(story, driver)
            driver.also(f"dies {FAILS} 1")
            story.until("the GPU is unhealthy", lambda: _report(story).get("healthy") == 7, 30)
            for name, count in (("other", 8), ("there", 7)):  # the first needs the node whose GPUs are all well
                story.apply(claim(name, count), pod(name))
                story.until(f"{name} is bound", lambda name=name: story.bound(name))  # type: ignore[misc]
            assert story.node_of("there") == DRIVER_NODE
            kubectl(story.plane, "delete", "node", DRIVER_NODE)
            kubectl(story.plane, "delete", "pod", "there", "-n", "default", "--wait=true")
            yield
    finally:
        kubectl(story.plane, "delete", "node", DRIVER_NODE, "--ignore-not-found")


@contextmanager
def _agent(story: Story, driver: Driver, folder: Path) -> Iterator[None]:
    """The agent of the node, with the stand-ins for its driver and its kubelet."""
    (folder / "proc").mkdir()
    a_process(folder / "proc", PID, STRANGER)
    agent = Component(story.plane, "agent", story.folder, node=DRIVER_NODE, more=("--node-name", DRIVER_NODE))
    agent.replace("--proc", str(folder / "proc"))
    agent.remove("--simulate")
    agent.add("--kubelet-socket", str(folder / "kubelet.sock"))
    with pytest.MonkeyPatch.context() as here, _kubelet(folder / "kubelet.sock"):
        here.setenv("LD_LIBRARY_PATH", f"{folder}:{os.environ.get('LD_LIBRARY_PATH', '')}")
        here.setenv("ULLAGE_NVML_SCENARIO", str(driver.scenario))
        with agent:
            yield


@contextmanager
def _kubelet(socket: Path) -> Iterator[None]:
    """A kubelet without a device plugin."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, daemon=True)
    thread.start()
    kubelet = serving(Kubelet(), socket)
    try:
        asyncio.run_coroutine_threadsafe(kubelet.__aenter__(), loop).result(10)
        yield
        asyncio.run_coroutine_threadsafe(kubelet.__aexit__(None, None, None), loop).result(10)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def _a_stray_process(story: Story, driver: Driver) -> None:
    """The process is reported by an Event; when it comes back, that Event is counted on."""
    line = f"proc {FAILS} {PID} 1000 c"
    driver.also(line)
    story.until("the process is told of", lambda: any(_strays(story)), 30)
    driver.no_longer(line)
    story.until("it is gone", lambda: not _users(story), 30)
    driver.also(line)
    story.until("it is told of again", lambda: any("series" in one for one in _strays(story)), 30)


def _strays(story: Story) -> list[Any]:
    events = story.get("events.events.k8s.io", "-n", "default")["items"]
    return [one for one in events if one["reason"] == "GpuUsedWithoutLease" and one["regarding"]["name"] == DRIVER_NODE]


def _report(story: Story) -> Any:
    found = [one for one in story.get("gpunodestatuses")["items"] if one["metadata"]["name"] == DRIVER_NODE]
    return found[0].get("status", {}) if found else {}


def _users(story: Story) -> list[str]:
    return [uid for one in _report(story).get("devices", ()) if one["id"] == FAILS for uid in one.get("inUseBy", ())]


@contextmanager
def a_dra_driver(story: Story) -> Iterator[None]:
    """A driver publishes the GPUs that are leased, then by other names."""
    try:
        _publish(story, 1, "gpu")
        story.apply(claim("withheld", 1), pod("withheld"))
        story.until("it is bound", lambda: story.bound("withheld"))
        story.until("it is withheld", lambda: _withheld(story).startswith("gpu-"))
        _an_allocation_needs_the_right_of_binding(story)
        _publish(story, 2, "device")
        story.until("it is withheld by its other name", lambda: _withheld(story).startswith("device-"))
        kubectl(story.plane, "delete", "pod", "withheld", "-n", "default", "--wait=true")
        yield
        story.until("its claim is let go", lambda: not story.get("resourceclaims", "-n", NAMESPACE)["items"])
    finally:
        kubectl(story.plane, "delete", "resourceslice", "slice", "--ignore-not-found")


def _publish(story: Story, generation: int, prefix: str) -> None:
    report = story.get("gpunodestatus", NODE)["status"]["devices"]
    devices = [
        {"name": f"{prefix}-{n}", "attributes": {"uuid": {"string": one["uuid"]}}} for n, one in enumerate(report)
    ]
    pool = {"name": NODE, "generation": generation, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": NODE, "pool": pool, "devices": devices}
    meta = {"name": "slice"}
    story.apply({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": meta, "spec": spec})


def _withheld(story: Story) -> str:
    """Device that the claim beside the pod's Lease is allocated; empty while there is none."""
    for one in story.get("resourceclaims", "-n", NAMESPACE)["items"]:
        given = one.get("status", {}).get("allocation")
        if given and "deletionTimestamp" not in one["metadata"]:
            return str(given["devices"]["results"][0]["device"])
    return ""


def _an_allocation_needs_the_right_of_binding(story: Story) -> None:
    """Without `resourceclaims/binding`, the same write is refused: the right is used within it."""
    reserved = story.get("resourceclaims", "-n", NAMESPACE)["items"][0]
    role = story.get("clusterrole", "ullage-scheduler")
    without = {**role, "rules": [one for one in role["rules"] if "resourceclaims/binding" not in one["resources"]]}
    access = story.plane.kubeconfig_of_account("ullage-scheduler", NAMESPACE)
    name, given = reserved["metadata"]["name"], reserved["status"]["allocation"]
    kubectl(story.plane, "replace", "-f", "-", stdin=yaml.safe_dump(without))
    try:
        asyncio.run(_allocate(story.plane.kubeconfig, name, None))
        with pytest.raises(Invalid, match='cannot patch resource "resourceclaims/binding"'):
            asyncio.run(_allocate(access, name, given))
    finally:
        del role["metadata"]["resourceVersion"]
        kubectl(story.plane, "replace", "-f", "-", stdin=yaml.safe_dump(role))
        asyncio.run(_allocate(story.plane.kubeconfig, name, given))


async def _allocate(access: Path, name: str, allocation: JsonObject | None) -> None:
    api = connect(access)
    try:
        patch = MergePatch({"status": {"allocation": allocation}})
        await api.patch(RESOURCE_CLAIMS[0].whole(), name, patch, NAMESPACE, subresource="status")
    finally:
        await api.close()
