"""NodeProvisioners: completed with defaults, judged by their schema, their status written whole and read back.

What the rules between fields refuse is tested on the real API server alone: `tests/kube/crds`.
"""

import pytest

from tests.kube.crds.bad_objects import Bad
from tests.kube.crds.bad_provisioners import BY_SCHEMA, SOUND
from ullage.clock import Instant
from ullage.errors import Invalid
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resources import NODE_PROVISIONERS
from ullage.kube.crds.catalog import NODE_PROVISIONER
from ullage.kube.crds.install import install
from ullage.kube.read.provisioner import read_decision, read_provisioner
from ullage.kube.write.gpu import patch_status
from ullage.kube.write.provisioner import provisioner_status
from ullage.model.pool_status import LastDecision, PoolStatus
from ullage.model.provisioner import AwaitedInstance, BackOff, CloudFailure, Purchase

WHOLE = NODE_PROVISIONERS.whole()
NOW = Instant(1_900_000_000.0)


@pytest.fixture
async def served(api: KubeApi) -> KubeApi:
    """An API server that knows the kind."""
    await install(api, (NODE_PROVISIONER,))
    return api


async def test_a_provisioner_is_completed_with_defaults(served: KubeApi, ns: str) -> None:
    made = await served.create(WHOLE, {"metadata": {"name": ns}, "spec": SOUND})
    spec, template = made["spec"], made["spec"]["template"]
    assert (spec["scaleDownDelay"], spec["scaleUpBatch"], spec["bootDeadline"]) == ("10m", "10s", "15m")
    assert (template["capacityType"], template["gpus"]["islands"], template["gpus"]["kind"]) == (
        "OnDemand",
        1,
        "Leased",
    )
    facts = read_provisioner(await served.get(NODE_PROVISIONERS, ns))
    assert (facts.thresholds.scale_down_delay, facts.thresholds.max_size, facts.template.gpus.count) == (600.0, 10, 8)
    await served.delete(WHOLE, ns)


@pytest.mark.parametrize("bad", BY_SCHEMA)
async def test_a_provisioner_against_the_schema_is_refused(served: KubeApi, ns: str, bad: Bad) -> None:
    with pytest.raises(Invalid) as caught:
        await served.create(WHOLE, bad.body(ns))
    assert any(cause.field.startswith(bad.field) for cause in caught.value.causes), caught.value.causes


async def test_a_status_is_read_back_as_it_was_meant(served: KubeApi, ns: str) -> None:
    made = await served.create(NODE_PROVISIONERS, {"metadata": {"name": ns}, "spec": SOUND})
    standing = PoolStatus(
        current=3,
        target=4,
        coming=1,
        utilization_percent=66,
        tainted=(("node-a", Instant(NOW + 600)),),
        decision=LastDecision(action="ScaleUp", count=1, at=NOW, why="demand"),
        purchases=8,
        purchase=Purchase(serial=7, count=1, since=NOW, zone="a", least=1),
        awaited=(AwaitedInstance(instance="i-1", since=NOW),),
        back_off=BackOff(failure=CloudFailure.CAPACITY, failures=2, until=Instant(NOW + 60), message="none left"),
    )
    status = provisioner_status(made.status, standing, generation=1, now=NOW)
    patch = patch_status(made.metadata, made.status, status)
    assert patch is not None
    told = await served.patch(NODE_PROVISIONERS, ns, patch, subresource="status")
    facts = read_provisioner(told)
    assert (facts.purchases, facts.purchase, facts.awaited) == (8, standing.purchase, standing.awaited)
    assert facts.back_off == standing.back_off
    assert read_decision(told.status) == standing.decision
    conditions = {one.type: (one.status, one.reason) for one in told.status.conditions}
    assert conditions == {
        "Ready": ("True", "Reconciled"),
        "ScalingUp": ("True", "NodesComing"),
        "ScalingDown": ("True", "NodesTainted"),
        "CapacityBlocked": ("True", "NoCapacity"),
        "AgentsSilent": ("False", "AgentsReport"),
    }
    settled = PoolStatus(
        current=4, target=4, coming=0, utilization_percent=None, tainted=(), decision=standing.decision, purchases=8
    )
    after = provisioner_status(told.status, settled, generation=1, now=Instant(NOW + 100))
    patch = patch_status(told.metadata, told.status, after)
    assert patch is not None
    whole = await served.patch(WHOLE, ns, patch, subresource="status")
    assert not {"purchase", "awaited", "backOff", "taintedNodes", "gpuUtilizationPercent"} & set(whole["status"])
    await served.delete(WHOLE, ns)
