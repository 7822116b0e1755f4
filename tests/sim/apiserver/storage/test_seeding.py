"""Objects of another cluster, stored as they were there."""

import random
from typing import Any

import pytest

from ullage.errors import UserError
from ullage.kube.client.api import Binding
from ullage.kube.client.resources import PODS
from ullage.kube.client.rest import RestApi
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.virtual_time import loop_clock, run_virtual
from ullage.testing.builders import a_pod

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    **a_pod("a", nodeName="n", restartPolicy="Never"),
    "metadata": {
        "name": "a",
        "namespace": "default",
        "uid": "of-old",
        "creationTimestamp": "2025-05-05T05:05:05Z",
        "resourceVersion": "9999",
        "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "too"}],
    },
    "status": {"phase": "Running", "startTime": "2025-05-05T05:06:00Z"},
}


def test_identity_times_and_status_are_kept() -> None:
    async def story() -> None:
        server = SimulatedApiServer(loop_clock())
        api = RestApi(InMemoryTransport(server), rng=random.Random(1))
        server.restore(POD)
        pod = await api.get(PODS.whole(), "a", "default")
        assert pod["metadata"]["uid"] == "of-old"
        assert pod["metadata"]["creationTimestamp"] == "2025-05-05T05:05:05Z"
        assert pod["metadata"]["ownerReferences"][0]["uid"] == "too"
        assert pod["metadata"]["resourceVersion"] == str(server.revision)
        assert pod["status"]["startTime"] == "2025-05-05T05:06:00Z"
        server.restore({**POD, "metadata": {**POD["metadata"], "name": "b"}, "spec": {"containers": []}, "status": {}})
        await api.bind("b", "default", Binding("m", uid="of-old"))
        assert (await api.get(PODS, "b", "default")).spec.node_name == "m", "it lives on as any other"

    run_virtual(story())


def test_a_kind_nobody_serves_is_named() -> None:
    async def story() -> None:
        with pytest.raises(UserError, match=r"example\.test/v1 Thing: the simulated API server serves no such kind"):
            SimulatedApiServer(loop_clock()).restore({"apiVersion": "example.test/v1", "kind": "Thing", "metadata": {}})

    run_virtual(story())
