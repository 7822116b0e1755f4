"""Agents answered over TLS on the real control plane: every refusal with its status and text, and unwanted callers."""

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.control.vms.site import ACCOUNT, NS, SYSTEM, VmSite, answering, message, new_message, until
from ullage.kube.client.api import KubeApi, MergePatch
from ullage.kube.client.resources import CONFIG_MAPS, EVENTS, PODS, VIRTUAL_MACHINES
from ullage.kube.read.vm import read_vm_pod
from ullage.model.fact_event import ObjectKey
from ullage.model.vm import VmAmounts
from ullage.testing.builders import a_pod, with_meta

pytestmark = pytest.mark.real
GI = 1 << 30


async def approved(api: KubeApi, pod: str) -> VmAmounts | None:
    found = read_vm_pod(await api.get(PODS, pod, NS))
    return None if found is None else found.approved


async def settled(site: VmSite, *pods: str) -> None:
    """Wait until the scheduler's ledger knows these pods."""
    assert site.scheduler is not None
    known = site.scheduler.core.snapshot.state.pods
    await until(lambda: {(NS, pod) for pod in pods} <= {tuple(key) for key in known}, 20)


ERRORS: list[tuple[str, dict[str, Any], int, str]] = [
    ("not POST", {"method": "GET", "body": b""}, 400, "must be POST"),
    ("not JSON", {"body": b"{"}, 400, "bad JSON"),
    ("a wrong type", {"body": {"protoVersion": "x"}}, 400, "bad JSON"),
    ("over 1 KiB", {"body": message("a", 1, padding="x" * 1024)}, 400, "bad JSON"),
    ("version missing", {"body": {}}, 400, "Invalid protocol version <invalid: zero>"),
    (
        "version not served",
        {"body": message("a", 1, protoVersion=3)},
        400,
        "Protocol version mismatch: Need v1.0 to v1.1 or v5.0 but got v2.0",
    ),
    (
        "version of the future",
        {"body": message("a", 1, protoVersion=10)},
        400,
        "Protocol version mismatch: Need v1.0 to v1.1 or v5.0 but got <unknown = v5.0 + 3>",
    ),
    (
        "no metrics in version 1.0",
        {"body": message("a", 1, protoVersion=1, metrics=None)},
        400,
        "nil metrics not supported for protocol version v1.0",
    ),
    (
        "no compute unit",
        {"body": new_message("a", "1", "4Gi", computeUnit=None)},
        400,
        "computeUnit fields must be non-zero: 0 CPU and 0",
    ),
    (
        "a metric missing",
        {"body": message("a", 1, metrics={"loadAvg1M": 1.0})},
        400,
        "metrics field loadAvg5M is missing",
    ),
    ("unknown pod", {"body": message("nobody", 1)}, 404, "pod not found"),
    (
        "wrong namespace",
        {"body": message("a", 1) | {"pod": {"namespace": "kube-system", "name": "a"}}},
        404,
        "pod not found",
    ),
    ("pod on no node", {"body": message("waiting", 1)}, 404, "pod's node is unknown"),
    ("pod on another node", {"body": message("far", 1)}, 403, "pod is not on the agent's node"),
    ("no VM", {"body": message("web", 1)}, 400, "pod is not associated with a VM"),
    (
        "a unit of half a slot",
        {"body": new_message("a", "1", "4Gi", computeUnit={"vCPUs": "250m", "mem": "512Mi"})},
        400,
        "computeUnit is not divisible by VM memory slot size: 512Mi is no multiple of 1Gi",
    ),
    (
        "change while migrating",
        {"body": message("moving", 2)},
        400,
        "cannot change resources: agent has already been informed that pod is migrating",
    ),
]


async def test_every_refusal_has_its_status_and_text(site: VmSite) -> None:
    await site.vm("a", "n1", 2)
    await site.vm("moving", "n1", 1)
    await site.vm("far", "n2", 1)
    await site.migration("moving")
    await site.api.create(PODS, a_pod("web", nodeName="n1", requests={"cpu": "1", "memory": "1Gi"}), NS)
    await site.api.create(PODS, a_pod("waiting"), NS)
    async with answering(site):
        await settled(site, "a", "moving", "far", "web", "waiting")
        for case, request, status, text in ERRORS:
            body = request["body"]
            assert await site.ask(body, method=request.get("method", "POST")) == (status, text), case
        # Told the unit by the first answer, the next request is held to it.
        status, said = await site.ask(message("a", 2))
        answered_unit = {"permit": {"vCPUs": 2, "mem": 8}, "resourceUnit": {"vCPUs": 1, "mem": 4}}
        assert (status, json.loads(said)) == (200, answered_unit)
        assert await site.ask(message("a", 3, 7)) == (
            400,
            "requested resources {VCPU:3 Mem:7} do not divide cleanly by previous compute unit {VCPU:1 Mem:4}",
        )
        # The same amounts are answered while it migrates.
        status, said = await site.ask(message("moving", 1))
        assert (status, json.loads(said)["migrate"]) == (200, {})
        # And what is granted is on the pod.
        assert json.loads((await site.ask(message("a", 4)))[1])["permit"] == {"vCPUs": 4, "mem": 16}
        assert await approved(site.api, "a") == VmAmounts(4000, 16 * GI)
        status, said = await site.ask(new_message("a", "3500m", "14Gi", lastPermit={"vCPUs": 4, "mem": "16Gi"}))
        assert (status, json.loads(said)) == (200, {"permit": {"vCPUs": "3500m", "mem": "14Gi"}})


async def test_who_is_refused(site: VmSite, account_key: Path) -> None:
    """A token of another node, an expired one, one of another account, one bound to no node, none."""
    await site.vm("b", "n1", 1)
    mine = site.tokens[f"{ACCOUNT}@n1"]
    async with answering(site):
        await settled(site, "b")
        asked = message("b", 1)
        assert (await site.ask(asked))[0] == 200
        assert (await site.ask(asked, token=site.ending(mine, account_key, 60)))[0] == 200
        refused = {
            "of another node": (site.tokens[f"{ACCOUNT}@n2"], (403, "pod is not on the agent's node")),
            "expired": (site.ending(mine, account_key, -60), (401, "the token is not valid")),
            "cut": (mine[:-8], (401, "the token is not valid")),
            "of another account": (site.tokens["somebody@n1"], (403, "the token does not belong to a VM agent")),
            "bound to no node": (site.tokens["bound to no node"], (403, "the token is not bound to a node")),
            "none": (None, (401, "a ServiceAccount token is needed")),
        }
        for case, (token, answer) in refused.items():
            assert await site.ask(asked, token=token) == answer, case
            assert await site.ask(asked, token=token) == answer, f"{case}, from the cache"
        assert await approved(site.api, "b") == VmAmounts(1000, 4 * GI)


async def test_the_ledger_is_shown_to_those_who_may_get_it(site: VmSite) -> None:
    await site.vm("c", "n2", 3)
    rule = {"nonResourceURLs": ["/state"], "verbs": ["get"]}
    await _grant(site, rule)
    async with answering(site):
        await settled(site, "c")
        url = site.state_url
        assert (await site.ask(b"", method="GET", url=url, token=None))[0] == 401
        outsider = site.tokens[f"{ACCOUNT}@n2"]
        assert await site.ask(b"", method="GET", url=url, token=outsider) == (403, "not allowed to get /state")
        reader = site.tokens["somebody@n2"]
        status, text = await site.ask(b"", method="GET", url=url, token=reader)
        assert status == 200
        nodes = {node["name"]: node for node in json.loads(text)["nodes"]}
        assert nodes["n2"]["cpu"]["total"] == 16_000
        assert nodes["n2"]["cpu"]["system"] == 1000
        assert {pod["name"]: pod["reserved"] for pod in nodes["n2"]["pods"]}["c"] == {"cpu": 3000, "memory": 12 * GI}
        assert await site.ask(b"x", method="POST", url=url, token=reader) == (405, "must be GET")


async def test_a_wrong_configuration_is_refused_and_the_next_one_taken_over(site: VmSite) -> None:
    await site.vm("d", "n2", 1)
    async with answering(site) as scheduler:
        await settled(site, "d")
        room = scheduler.core.snapshot.vms
        assert room.ledger.ledger("n2").cpu.watermark == 12_000
        good = (await site.api.get(CONFIG_MAPS, "vm-nodes", SYSTEM))["data"]["config.json"]
        await _configure(site, good.replace("0.8", "1.8"))
        await until(lambda: room.refusal is not None, 20)
        event = await _event(site)
        wrong = "Invalid config at nodeDefaults.cpu.watermark: must be above 0 and at most 1"
        assert event["note"] == f"{wrong}; the configuration before stays in force"
        assert room.ledger.ledger("n2").cpu.watermark == 12_000
        await _configure(site, good.replace("0.8", "0.4"))
        await until(lambda: room.ledger.ledger("n2").cpu.watermark == 6_000, 20)
        assert room.refusal is None


async def test_a_vm_pod_is_bound_with_its_first_approval_and_one_without_a_vm_waits(site: VmSite) -> None:
    guest = {"cpus": {"min": 1, "use": 2, "max": 8}, "memorySlots": {"min": 4, "use": 8, "max": 32}}
    labels = {"autoscaling.neon.tech/enabled": "true"}
    body = {"metadata": {"name": "fresh", "labels": labels}, "spec": {"guest": guest}}
    await site.api.create(VIRTUAL_MACHINES.whole(), body, NS)
    for name in ("fresh", "orphan"):
        pod = with_meta(a_pod(name, schedulerName="gpu-scheduler"), labels={"vm.neon.tech/name": name})
        await site.api.create(PODS, pod, NS)
    async with answering(site):
        assert site.scheduler is not None
        known = site.scheduler.core.snapshot.state.pods
        await until(lambda: bool(known[ObjectKey(NS, "fresh")].node), 20)
        await until(lambda: known[ObjectKey(NS, "orphan")].unplaced == "Unschedulable", 20)
        assert await approved(site.api, "fresh") == VmAmounts(2000, 8 * GI)
        waiting = await site.api.get(PODS, "orphan", NS)
        (condition,) = (one for one in waiting.status.conditions if one.type == "PodScheduled")
        assert condition.message == f"VirtualMachine {NS}/orphan is not there"


@pytest.mark.fault
async def test_fuzzed_requests_never_crash_it(site: VmSite, request: pytest.FixtureRequest) -> None:
    """10,000 with --full, 400 without. Each is answered; then an honest one is, too."""
    await site.vm("e", "n1", 1)
    rng = random.Random(20_26)
    many = 10_000 if request.config.getoption("--full", default=False) else 400
    async with answering(site) as scheduler:
        await settled(site, "e")
        gate = asyncio.Semaphore(20)

        async def one(number: int) -> int:
            async with gate:
                token = site.tokens[f"{ACCOUNT}@n1"] if number % 10 else rng.choice((None, "x", "a.b.c", "ä"))
                method = "POST" if number % 7 else rng.choice(("GET", "PUT", "DELETE", "PATCH", "OPTIONS"))
                status, _ = await site.ask(fuzzed(rng), method=method, token=token)
                return status

        seen = await asyncio.gather(*(one(number) for number in range(many)))
        assert set(seen) <= {200, 400, 401, 403, 404}
        assert 400 in seen
        free = scheduler.core.snapshot.vms.ledger.ledger("n1")
        assert free.cpu.reserved - free.cpu.buffer <= free.cpu.total
        for honest in (new_message("e", "1", "4Gi"), message("e", 1)):
            status, answer = await site.ask(honest)
            assert status == 200, answer


def fuzzed(rng: random.Random) -> bytes:
    """A message with something wrong in it, or bytes that are none."""
    kind = rng.randrange(5)
    if kind == 0:
        return rng.randbytes(rng.randrange(0, 2000))
    body = message("e", 1) if kind < 3 else new_message("e", "1", "4Gi")
    for _ in range(rng.randrange(1, 4)):
        key = rng.choice(sorted(body))
        body[key] = rng.choice(VALUES)
    text = json.dumps(body).encode()
    if kind == 4:
        place = rng.randrange(len(text))
        return text[:place] + rng.randbytes(1) + text[place + 1 :]
    return text


VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 3, 7, 2**70, 1e308, "", "x" * 300, "\u0000", "1e30", "-5", [], {}, [[[]]],
    {"vCPUs": -1, "mem": 1}, {"vCPUs": "9" * 40, "mem": "1Gi"}, {"vCPUs": 1, "mem": 4}, {"namespace": 3},
    {"namespace": NS, "name": "e"}, {"namespace": NS, "name": "../../x"}, {"loadAvg1M": "x"}, {"loadAvg1M": -1.0},
)  # fmt: skip


async def _configure(site: VmSite, text: str) -> None:
    await site.api.patch(CONFIG_MAPS, "vm-nodes", MergePatch({"data": {"config.json": text}}), SYSTEM)


async def _event(site: VmSite) -> dict[str, Any]:
    for _ in range(100):
        for one in (await site.api.list(EVENTS, SYSTEM)).items:
            if one["reason"] == "VmConfigRefused":
                return one
        await asyncio.sleep(0.1)
    raise AssertionError("there is no Event")


async def _grant(site: VmSite, rule: dict[str, Any]) -> None:
    from ullage.kube.client.resource import JsonObject, Resource

    roles = Resource[JsonObject]("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False, dict)
    bindings = Resource[JsonObject](
        "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", False, dict
    )
    await site.api.create(roles, {"metadata": {"name": "state-reader"}, "rules": [rule]})
    account = {"kind": "ServiceAccount", "name": "somebody", "namespace": SYSTEM}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "state-reader"}
    await site.api.create(bindings, {"metadata": {"name": "state-reader"}, "roleRef": role, "subjects": [account]})
