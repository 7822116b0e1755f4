"""NodeProvisioners on a real API server: bad ones are refused by field, we judge the same, kubectl shows them."""

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.kube.crds.bad_objects import Bad
from tests.kube.crds.bad_provisioners import BY_RULE, BY_SCHEMA, LEFT_OUT, SOUND, with_fields
from tests.kube.crds.test_kinds_real import kubectl
from ullage.errors import Invalid, Unreadable
from ullage.kube.client.api import KubeApi, MergePatch
from ullage.kube.client.json_codec import to_json
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import NODE_PROVISIONERS
from ullage.kube.crds.check import violations
from ullage.kube.objects.provisioner import NodeProvisioner
from ullage.kube.read.provisioner import read_provisioner
from ullage.testing.controlplane import ControlPlane

pytestmark = pytest.mark.real

WHOLE = NODE_PROVISIONERS.whole()

ODD: dict[str, list[Any]] = {
    "maxSize": [1, 5000, 5001, 0],
    "minSize": [0, 10, 11],
    "minGPUUtilizationPercent": [0, 80, 100, 101],
    "minUnutilizedGPUNodes": [10, 11, -1],
    "scaleDownDelay": ["0s", "1h30m", "90s", "1.5h", "30m1h", "s"],
    "scaleUpBatch": ["999999h", "1d"],
    "provider.parameters": [{"a": ""}, {"a": "x" * 1025}],
    "provider.name": ["x" * 63, "x" * 64],
    "template.gpus.count": [16, 17, 6, 0],
    "template.gpus.islands": [8, 2, 3, 0],
    "template.gpus.memory": ["80Gi", 1, "0.5m", "x"],
    "template.gpus.kind": ["Counted", "Rented"],
    "template.resources": [
        {"cpu": 1},
        {"cpu": "500m", "memory": ".5Gi", "example.com/x": 0},
        {"cpu": "-1", "memory": 1},
    ],
    "template.labels": [{}, {"a/b": "c"}, {"a/b/c": "d"}, {"gpu.scheduling/provisioner": "p"}],
    "template.taints": [
        [{"key": "a", "effect": "NoExecute"}],
        [{"key": "a b", "effect": "NoExecute"}],
        [{"key": "a", "effect": "Never"}],
        [{"key": "gpu.scheduling/deletion-time", "effect": "NoSchedule"}],
    ],
    "template.pricePerHour": [0, "98.32", "0.0000001", "1e3"],
    "template.zones": [["a", "b"], ["a", "a"], ["-"]],
    "template.capacityType": ["Spot", "spot"],
}


async def tried(api: KubeApi, spec: JsonObject) -> JsonObject | Invalid:
    """What the server would store, or its refusal."""
    try:
        return await api.create(WHOLE, {"metadata": {"name": "a"}, "spec": spec}, dry_run=True)
    except Invalid as invalid:
        return invalid


async def judge(api: KubeApi, spec: JsonObject) -> bool:
    """Whether the server accepts it. Fails where we judge otherwise."""
    ours = msgspec.convert({"metadata": {"name": "a"}, "spec": spec}, NodeProvisioner)
    stored = await tried(api, spec)
    if isinstance(stored, Invalid):
        theirs = {cause.field.partition("[")[0] for cause in stored.causes}
        found = {violation.field.partition("[")[0] for violation in violations(ours)}
        # Where the schema is broken the server may not come to check rules, and says so with "<nil>". We do not come
        # to them where a number that must be there is 0: a reader cannot tell it from one left out.
        told = theirs - {"<nil>"}
        if "<nil>" in theirs:
            agreed = told <= found
        elif any(one.message == "is required" for one in violations(ours)):
            agreed = found <= told
        else:
            agreed = told == found
        assert agreed, (spec, stored.message)
        with pytest.raises(Unreadable):
            read_provisioner(ours)
        return False
    back = msgspec.convert(stored, NodeProvisioner)
    assert back.spec == ours.spec, spec
    assert read_provisioner(back).template == read_provisioner(ours).template
    assert msgspec.convert(to_json(back.spec), type(back.spec)) == back.spec
    return True


@pytest.mark.parametrize("bad", [*BY_SCHEMA, *BY_RULE])
async def test_a_bad_provisioner_is_refused_and_the_field_is_named(api: KubeApi, bad: Bad) -> None:
    with pytest.raises(Invalid) as caught:
        await api.create(WHOLE, bad.body("x"), dry_run=True)
    assert bad.says in caught.value.message
    assert any(cause.field.startswith(bad.field) for cause in caught.value.causes), caught.value.causes


async def test_a_sound_provisioner_with_any_one_oddity(api: KubeApi) -> None:
    assert await judge(api, SOUND)
    verdicts = [await judge(api, with_fields({path: value})) for path, values in ODD.items() for value in values]
    assert 0 < sum(verdicts) < len(verdicts)


oddities = st.sampled_from(sorted(ODD)).flatmap(lambda path: st.tuples(st.just(path), st.sampled_from(ODD[path])))


@given(st.lists(oddities, min_size=2, max_size=4))
@example([("maxSize", 0), ("minSize", 10)])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_a_provisioner_with_several_oddities(api: KubeApi, several: list[tuple[str, Any]]) -> None:
    await judge(api, with_fields(dict(several)))


async def test_a_provisioner_keeps_its_provider(api: KubeApi, ns: str) -> None:
    await api.create(WHOLE, {"metadata": {"name": ns}, "spec": SOUND})
    await api.patch(WHOLE, ns, MergePatch({"spec": {"provider": {"parameters": {"a": "b"}}}}))
    with pytest.raises(Invalid, match="the nodes there are belong to it") as caught:
        await api.patch(WHOLE, ns, MergePatch({"spec": {"provider": {"name": "aws"}}}))
    assert [cause.field for cause in caught.value.causes] == ["spec.provider.name"]
    await api.delete(WHOLE, ns)


async def test_a_name_that_is_no_label_value_is_refused(api: KubeApi) -> None:
    with pytest.raises(Invalid, match=r"metadata\.name must be at most 63 long: it is the value of a label"):
        await api.create(WHOLE, {"metadata": {"name": "x" * 64}, "spec": SOUND}, dry_run=True)


async def test_kubectl_shows_provisioners(api: KubeApi, control_plane: ControlPlane, ns: str) -> None:
    spec = with_fields({"minSize": 1, "template.pricePerHour": "98.32", "template.zones": LEFT_OUT})
    await api.create(WHOLE, {"metadata": {"name": ns}, "spec": spec})
    moment = "2030-01-01T00:00:00Z"
    status = {
        "currentSize": 3,
        "targetSize": 4,
        "gpuUtilizationPercent": 66,
        "lastDecision": {"action": "ScaleUp", "count": 1, "at": moment, "why": "demand"},
        "unmetPods": 5,
        "conditions": [
            {"type": "Ready", "status": "True", "reason": "Reconciled", "lastTransitionTime": moment},
            {"type": "CapacityBlocked", "status": "True", "reason": "NoCapacity", "lastTransitionTime": moment},
        ],
    }
    await api.patch(WHOLE, ns, MergePatch({"status": status}), subresource="status")
    head, row = (await kubectl(control_plane, "get", "np", ns)).splitlines()
    assert head.split() == [*("NAME", "CURRENT", "TARGET", "USED", "READY", "MODEL", "BACKOFF", "UNMET", "LAST", "AGE")]
    assert row.split()[:-1] == [ns, "3", "4", "66", "True", "H100", "NoCapacity", "5", "ScaleUp"]
    _, wide = (await kubectl(control_plane, "get", "np", ns, "-o", "wide")).splitlines()
    assert wide.split()[9:-1] == ["1", "10", "simulated", "98.32", "demand"]
    chosen = await kubectl(control_plane, "get", "np", "-o", "name", "--field-selector", "spec.provider.name=aws")
    assert chosen == ""
    await api.delete(WHOLE, ns)
