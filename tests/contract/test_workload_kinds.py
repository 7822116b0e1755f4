"""Deployments, ReplicaSets, StatefulSets, DaemonSets and Jobs as objects: defaults, rules, scale. Nobody acts here."""

import pytest

from tests.contract.expect import refused
from tests.contract.kinds import CONFIG_MAP, DAEMON_SET, DEPLOYMENT, JOB, POD, REPLICA_SET, STATEFUL_SET
from tests.contract.steps import uid
from ullage.errors import Invalid, NotFound
from ullage.kube.client.api import KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.client.resources import DEPLOYMENTS, JOBS
from ullage.testing.builders import a_config_map, a_job, a_pod, a_pod_spec, a_workload

INVALID, REQUIRED, FORBIDDEN = "FieldValueInvalid", "FieldValueRequired", "FieldValueForbidden"

KINDS = [
    pytest.param(DEPLOYMENT, id="deployment"),
    pytest.param(REPLICA_SET, id="replica-set"),
    pytest.param(STATEFUL_SET, id="stateful-set"),
    pytest.param(DAEMON_SET, id="daemon-set"),
]
SCALING = KINDS[:3]


@pytest.mark.parametrize("kind", SCALING)
async def test_one_replica_unless_said(api: KubeApi, ns: str, kind: Resource[JsonObject]) -> None:
    assert (await api.create(kind, a_workload("a"), ns))["spec"]["replicas"] == 1


@pytest.mark.parametrize("kind", SCALING)
async def test_none_is_a_number_of_replicas(api: KubeApi, ns: str, kind: Resource[JsonObject]) -> None:
    assert (await api.create(kind, a_workload("a", replicas=0), ns))["spec"]["replicas"] == 0


@pytest.mark.parametrize("kind", KINDS)
async def test_template_is_filled_in_like_a_pod(api: KubeApi, ns: str, kind: Resource[JsonObject]) -> None:
    template = (await api.create(kind, a_workload("a", pod=a_pod_spec(gpus=1)), ns))["spec"]["template"]["spec"]
    assert (template["schedulerName"], template["restartPolicy"]) == ("default-scheduler", "Always")
    assert template["containers"][0]["terminationMessagePolicy"] == "File"
    assert template["containers"][0]["resources"] == {"limits": {"nvidia.com/gpu": "1"}}, "requests are for pods only"
    assert "tolerations" not in template, "so is what admission adds"


async def test_deployment_rolls_by_quarters(api: KubeApi, ns: str) -> None:
    made = await api.create(DEPLOYMENT, a_workload("a"), ns)
    assert made["spec"]["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
    }
    assert (made["spec"]["revisionHistoryLimit"], made["spec"]["progressDeadlineSeconds"]) == (10, 600)


async def test_stateful_set_goes_in_order(api: KubeApi, ns: str, minor: int) -> None:
    spec = (await api.create(STATEFUL_SET, a_workload("a", serviceName="s"), ns))["spec"]
    assert spec["podManagementPolicy"] == "OrderedReady"
    rolling = {"partition": 0} | ({"maxUnavailable": 1} if minor >= 37 else {})
    assert spec["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": rolling}


@pytest.mark.parametrize("kind", KINDS)
async def test_selector_must_match_the_template(api: KubeApi, ns: str, kind: Resource[JsonObject]) -> None:
    body = a_workload("a", selector={"matchLabels": {"app": "other"}})
    says = "`selector` does not match template `labels`"
    with refused(Invalid, reason="Invalid", says=says, causes=[("spec.template.metadata.labels", INVALID)]):
        await api.create(kind, body, ns)


async def test_selector_is_required(api: KubeApi, ns: str) -> None:
    causes = [("spec.selector", REQUIRED), ("spec.template.metadata.labels", INVALID)]
    with refused(Invalid, reason="Invalid", says='Deployment.apps "a" is invalid', causes=causes):
        await api.create(DEPLOYMENT, a_workload("a", selector=None), ns)


@pytest.mark.parametrize("kind", [DEPLOYMENT, REPLICA_SET, DAEMON_SET], ids=["deployment", "replica-set", "daemon-set"])
async def test_selector_is_fixed(api: KubeApi, ns: str, kind: Resource[JsonObject]) -> None:
    await api.create(kind, a_workload("a", labels={"app": "x", "tier": "y"}), ns)
    narrower = MergePatch({"spec": {"selector": {"matchLabels": {"tier": None}}}})
    with refused(Invalid, reason="Invalid", says="field is immutable", causes=[("spec.selector", INVALID)]):
        await api.patch(kind, "a", narrower, ns)


async def test_stateful_set_is_mostly_fixed(api: KubeApi, ns: str, minor: int) -> None:
    await api.create(STATEFUL_SET, a_workload("a", serviceName="s"), ns)
    says, causes = "field is immutable", [("spec.serviceName", INVALID)]
    if minor < 37:
        says, causes = "updates to statefulset spec for fields other than", [("spec", FORBIDDEN)]
    with refused(Invalid, reason="Invalid", says=says, causes=causes):
        await api.patch(STATEFUL_SET, "a", MergePatch({"spec": {"serviceName": "other"}}), ns)


@pytest.mark.parametrize("kind", SCALING)
async def test_negative_replicas_are_refused(api: KubeApi, ns: str, kind: Resource[JsonObject]) -> None:
    await api.create(kind, a_workload("a"), ns)
    says = "must be greater than or equal to 0"
    with refused(Invalid, reason="Invalid", says=says, causes=[("spec.replicas", INVALID)]):
        await api.patch(kind, "a", MergePatch({"spec": {"replicas": -1}}), ns)


@pytest.mark.parametrize("kind", SCALING)
async def test_scale_is_read_and_written(api: KubeApi, ns: str, kind: Resource[JsonObject]) -> None:
    made = await api.create(kind, a_workload("a", replicas=2), ns)
    assert await api.read_scale(kind, "a", ns) == 2
    await api.scale(kind, "a", ns, 5)
    scaled = await api.get(kind, "a", ns)
    assert (scaled["spec"]["replicas"], scaled["metadata"]["generation"]) == (5, 2)
    assert scaled["spec"] | {"replicas": 2} == made["spec"]


async def test_scaling_to_none_is_scaling(api: KubeApi, ns: str) -> None:
    await api.create(DEPLOYMENT, a_workload("a", replicas=2), ns)
    await api.scale(DEPLOYMENT, "a", ns, 0)
    assert await api.read_scale(DEPLOYMENT, "a", ns) == 0
    assert (await api.get(DEPLOYMENTS, "a", ns)).spec.replicas == 0


async def test_scaling_below_none_is_refused(api: KubeApi, ns: str) -> None:
    await api.create(DEPLOYMENT, a_workload("a"), ns)
    with refused(Invalid, reason="Invalid", says='Scale.autoscaling "a"', causes=[("spec.replicas", INVALID)]):
        await api.scale(DEPLOYMENT, "a", ns, -1)


async def test_scale_of_what_is_not_there_is_not_found(api: KubeApi, ns: str) -> None:
    for attempt in (api.read_scale(DEPLOYMENT, "missing", ns), api.scale(DEPLOYMENT, "missing", ns, 1)):
        with refused(NotFound, reason="NotFound", says='deployments.apps "missing" not found'):
            await attempt


async def test_what_does_not_scale_has_no_scale(api: KubeApi, ns: str) -> None:
    await api.create(CONFIG_MAP, a_config_map("a"), ns)
    await api.create(POD, a_pod("a"), ns)
    for kind in (CONFIG_MAP, POD):
        with refused(NotFound, reason="NotFound", says="the server could not find the requested resource"):
            await api.read_scale(kind, "a", ns)


async def test_job_runs_one_pod_once_unless_said(api: KubeApi, ns: str) -> None:
    spec = (await api.create(JOB, a_job("a"), ns))["spec"]
    counts = ("parallelism", "completions", "backoffLimit", "completionMode", "suspend")
    assert [spec[key] for key in counts] == [1, 1, 6, "NonIndexed", False]


async def test_job_with_parallelism_alone_is_a_work_queue(api: KubeApi, ns: str) -> None:
    made = await api.create(JOBS, a_job("a", parallelism=3), ns)
    assert (made.spec.parallelism, made.spec.completions) == (3, None)


async def test_job_makes_its_own_selector(api: KubeApi, ns: str) -> None:
    made = await api.create(JOB, a_job("a", labels={"team": "x"}), ns)
    mine = {"batch.kubernetes.io/controller-uid": uid(made)}
    assert made["spec"]["selector"] == {"matchLabels": mine}
    labels = made["spec"]["template"]["metadata"]["labels"]
    named = {"batch.kubernetes.io/job-name": "a", "job-name": "a", "controller-uid": uid(made)}
    assert labels == {"team": "x"} | mine | named


async def test_pods_of_a_job_end(api: KubeApi, ns: str) -> None:
    causes = [("spec.template.spec.restartPolicy", REQUIRED)]
    with refused(Invalid, reason="Invalid", says='valid values: "OnFailure", "Never"', causes=causes):
        await api.create(JOB, a_job("a", pod=a_pod_spec(restartPolicy="Always")), ns)


async def test_completions_of_a_job_are_fixed(api: KubeApi, ns: str) -> None:
    await api.create(JOB, a_job("a", completions=2, parallelism=2), ns)
    parallel = await api.patch(JOB, "a", MergePatch({"spec": {"parallelism": 1}}), ns)
    assert parallel["spec"]["parallelism"] == 1
    with refused(Invalid, reason="Invalid", says="field is immutable", causes=[("spec.completions", INVALID)]):
        await api.patch(JOB, "a", MergePatch({"spec": {"completions": 3}}), ns)


async def test_job_can_wait(api: KubeApi, ns: str) -> None:
    await api.create(JOB, a_job("a", suspend=True), ns)
    released = await api.patch(JOB, "a", MergePatch({"spec": {"suspend": False}}), ns)
    assert (released["spec"]["suspend"], released["metadata"]["generation"]) == (False, 2)
