"""Host ports, pod slots and resources."""

from typing import Any

import pytest

from tests.decide.placement.filters.asking import Cluster, a_node, a_waiting
from ullage.model.verdict import Reason


def port(number: int = 80, **more: Any) -> dict[str, Any]:
    return {"containerPort": 80, "hostPort": number} | more


@pytest.mark.parametrize(
    ("taken", "wanted", "fits"),
    [
        pytest.param(port(), port(), False, id="same-port"),
        pytest.param(port(), port(81), True, id="another-port"),
        pytest.param(port(protocol="UDP"), port(), True, id="another-protocol"),
        pytest.param(port(hostIP="10.0.0.1"), port(hostIP="10.0.0.2"), True, id="another-address"),
        pytest.param(port(hostIP="10.0.0.1"), port(hostIP="10.0.0.1"), False, id="same-address"),
        pytest.param(port(hostIP="10.0.0.1"), port(), False, id="one-address-is-taken-all-are-wanted"),
        pytest.param(port(), port(hostIP="10.0.0.1"), False, id="all-addresses-are-taken-one-is-wanted"),
        pytest.param({"containerPort": 80}, {"containerPort": 80}, True, id="container-ports-do-not-collide"),
    ],
)
def test_host_ports(taken: dict[str, Any], wanted: dict[str, Any], fits: bool) -> None:
    cluster = Cluster(a_node("a"), a_node("b")).run("other", "a", ports=[taken])
    pod = a_waiting(ports=[wanted])
    assert cluster.fitting(pod) == ("ab" if fits else "b")
    if not fits:
        assert cluster.ask(pod)["a"].reason is Reason.HOST_PORT_TAKEN


@pytest.mark.parametrize(
    ("policy", "fits"),
    [
        pytest.param("Always", False, id="a-sidecar-keeps-its-port"),
        pytest.param("", True, id="an-init-container-is-over-soon"),
    ],
)
def test_host_ports_of_init_containers(policy: str, fits: bool) -> None:
    init = {"name": "init", "ports": [port()], "restartPolicy": policy}
    cluster = Cluster(a_node("a")).run("other", "a", initContainers=[init])
    assert bool(cluster.fitting(a_waiting(ports=[port()]))) is fits


@pytest.mark.parametrize(
    ("offered", "used", "wanted", "expected"),
    [
        pytest.param("8", "4", "4", Reason.FITS, id="exactly-what-is-left"),
        pytest.param("8", "4", "4001m", Reason.INSUFFICIENT_RESOURCES, id="one-thousandth-too-much"),
        pytest.param("8", "0", "9", Reason.NODE_TOO_SMALL, id="more-than-the-node-ever-has"),
        pytest.param("8", "12", "1m", Reason.INSUFFICIENT_RESOURCES, id="promised-twice-already"),
        pytest.param("8", "12", "0", Reason.FITS, id="nothing-is-always-there"),
    ],
)
def test_resources(offered: str, used: str, wanted: str, expected: Reason) -> None:
    cluster = Cluster(a_node("a", allocatable={"cpu": offered})).run("other", "a", requests={"cpu": used})
    assert cluster.ask(a_waiting(requests={"cpu": wanted}))["a"].reason is expected


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param("0", Reason.FITS, id="asking-for-none-needs-none"),
        pytest.param("1", Reason.NODE_TOO_SMALL, id="a-node-without-has-none"),
    ],
)
def test_extended_resources(wanted: str, expected: Reason) -> None:
    verdict = Cluster(a_node("a")).ask(a_waiting(requests={"nvidia.com/gpu": wanted}))["a"]
    assert verdict.reason is expected


def test_one_resource_too_large_matters_more_than_another_that_is_short() -> None:
    cluster = Cluster(a_node("a")).run("other", "a", requests={"cpu": "8"})
    wanted = {"cpu": "1", "memory": "17Gi"}
    assert cluster.ask(a_waiting(requests=wanted))["a"].reason is Reason.NODE_TOO_SMALL


def test_slots_for_pods() -> None:
    cluster = Cluster(a_node("a", allocatable={"pods": "2"})).run("one", "a")
    assert cluster.fitting(a_waiting()) == "a"
    cluster.run("two", "a", leaving=True)
    verdict = cluster.ask(a_waiting())["a"]
    assert (verdict.reason, verdict.detail) == (Reason.TOO_MANY_PODS, "2 pods, 2 allowed")


def test_a_node_that_can_never_do_is_told_apart_from_one_that_is_full() -> None:
    cluster = Cluster(a_node("a", allocatable={"pods": "1"})).run("one", "a")
    assert cluster.ask(a_waiting(requests={"cpu": "9"}))["a"].reason is Reason.NODE_TOO_SMALL


def test_a_shortage_is_told_in_numbers() -> None:
    cluster = Cluster(a_node("a")).run("other", "a", requests={"cpu": "7500m", "memory": "12Gi"})
    verdict = cluster.ask(a_waiting(requests={"cpu": "1", "memory": "8Gi"}))["a"]
    assert verdict.detail == "wants 1 of cpu, 0.5 of 8 free; wants 8Gi of memory, 4Gi of 16Gi free"
