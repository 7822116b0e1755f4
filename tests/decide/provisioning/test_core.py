"""ProvisioningCore: events that call for a new plan, and what becomes of outcomes."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.decide.provisioning.pools import a_provisioner
from ullage.config.settings import Settings
from ullage.decide.provisioning.core import ProvisioningCore, can_change_plan
from ullage.model.fact_event import Added, Deleted, FactEvent, ObjectKey, Updated
from ullage.model.intents import ScaleUp, TerminateInstance
from ullage.model.outcomes import LaunchFailed, PoolActionDone, PoolActionFailed, PoolFailure, PoolOutcome
from ullage.model.pod import Phase, Pod
from ullage.model.pod_marks import PodDrainInfo
from ullage.model.provisioner import AwaitedInstance, CloudFailure, Provisioner
from ullage.model.shape import Shape, interned
from ullage.model.units import Instant, Steady
from ullage.state.snapshot import ClusterSnapshot
from ullage.testing.facts import node_fact, pod_fact

NOW = Instant(100_000.0)
KEY = ObjectKey("default", "p")
POD = pod_fact(
    KEY.name,
    namespace=KEY.namespace,
    uid="u",
    node="n",
    phase=Phase.PENDING,
    shape=interned(Shape(namespace="default")),
)
NODE = node_fact("n")


def changed(**fields: Any) -> FactEvent[Pod]:
    return Updated(KEY, POD, replace(POD, **fields))


CASES: dict[str, tuple[FactEvent[Any], bool]] = {
    "a pod came": (Added(KEY, POD), True),
    "a pod went": (Deleted(KEY, POD), True),
    "it started": (changed(phase=Phase.RUNNING, resource_version="2"), False),
    "somebody wrote on it": (changed(resource_version="2"), False),
    "it became ready": (changed(marks=PodDrainInfo(ready=True)), False),
    "it finished": (changed(phase=Phase.SUCCEEDED), True),
    "it is leaving": (changed(deleting=True), True),
    "it was found unschedulable": (changed(unplaced="Unschedulable"), True),
    "a node is made free for it": (changed(nominated="n"), True),
    "a node changed": (Updated(ObjectKey("", "n"), NODE, replace(NODE, ready=False)), True),
}


@pytest.mark.parametrize(("event", "news"), CASES.values(), ids=CASES)
def test_news(event: FactEvent[Any], news: bool) -> None:
    assert can_change_plan(event) is news


def settled(*outcomes: PoolOutcome) -> tuple[ProvisioningCore, Provisioner]:
    core = ProvisioningCore(ClusterSnapshot(), Settings())
    pool = replace(
        a_provisioner(), awaited=tuple(AwaitedInstance(instance=one, since=Instant(0.0)) for one in ("i-1", "i-2"))
    )
    return core, core.settle(pool, outcomes, now=NOW, steady=Steady(0.0))


def terminated(instance: str, *, departed: bool = False) -> TerminateInstance:
    return TerminateInstance(node="n", instance=instance, why="a test", lost=True, departed=departed)


@pytest.mark.parametrize(
    ("departed", "backs_off"), [pytest.param(False, True, id="never-joined"), pytest.param(True, False, id="departed")]
)
def test_a_lost_instance_is_awaited_no_longer(departed: bool, backs_off: bool) -> None:
    _, pool = settled(PoolActionDone(terminated("i-1", departed=departed)))
    assert [one.instance for one in pool.awaited] == ["i-2"]
    assert (pool.back_off is not None) is backs_off


@pytest.mark.parametrize(
    ("failure", "deletes_at", "protected"),
    [
        pytest.param(PoolFailure.CLOUD_FAILED, True, False, id="the-cloud-failed"),
        pytest.param(PoolFailure.PROTECTED, False, True, id="it-is-protected"),
    ],
)
def test_a_failed_deletion_is_remembered(failure: PoolFailure, deletes_at: bool, protected: bool) -> None:
    core, pool = settled(PoolActionFailed(action=terminated("i-1"), setback=failure, detail="a test"))
    assert [one.instance for one in pool.awaited] == ["i-1", "i-2"]
    seen = core.facts((pool,), (), now=NOW, steady=Steady(1.0))
    assert (bool(seen.deletes_at), bool(seen.protected)) == (deletes_at, protected)
    later = core.facts((pool,), (), now=Instant(NOW + 4000), steady=Steady(4001.0))
    assert (later.deletes_at, later.protected) == ({}, frozenset())


def test_a_purchase_is_open_until_its_outcome_is_known() -> None:
    core, pool = settled()
    intent = ScaleUp(provisioner=pool.name, count=2, serial=7, token="t", why="a test")
    opened = core.open_purchase(pool, intent, now=NOW)
    assert opened.purchase is not None
    failed = LaunchFailed(intent, failure=CloudFailure.CAPACITY, detail="none left")
    after = core.settle(opened, (failed,), now=NOW, steady=Steady(0.0))
    assert (after.purchase, after.back_off is None) == (None, False)
