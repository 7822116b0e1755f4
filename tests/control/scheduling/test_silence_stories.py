"""Nothing fails without a word: what the API server does not allow is said once, in its own words, to all who look."""

import asyncio

import pytest
from structlog.testing import capture_logs

from tests.control.scheduling.counted import NS, USER, Cluster, play
from tests.control.scheduling.fleet import SCHEDULER, submit
from ullage.decide.explain.planning import PlanInputs
from ullage.decide.explain.pod import explain_pod
from ullage.kube.client.resources import GPU_CLAIMS, PODS
from ullage.model.fact_event import ObjectKey
from ullage.sim.apiserver.request.authorization import Authoriser, AuthorizationRequest
from ullage.testing.builders import a_pod
from ullage.testing.checks.pending_pods import read_fresh

pytestmark = pytest.mark.story


def all_but(resource: str, *verbs: str) -> Authoriser:
    """Everything but this is allowed to the scheduler."""

    def may(asked: AuthorizationRequest) -> bool:
        return asked.user != USER or not asked.resource.startswith(resource) or asked.verb not in verbs

    return may


class Role:
    """A role that is given later."""

    def __init__(self, before: Authoriser) -> None:
        self._before = before
        self.given = False

    def __call__(self, asked: AuthorizationRequest) -> bool:
        return self.given or self._before(asked)


FORBIDDEN = pytest.mark.parametrize(
    ("may", "said"),
    [
        pytest.param(all_but("pods/binding", "create"), 'cannot create resource "pods/binding"', id="to-bind"),
        pytest.param(all_but("leases", "create"), 'cannot create resource "leases"', id="to-lease-gpus"),
    ],
)


@FORBIDDEN
def test_a_placement_that_is_not_allowed_is_said_by_everybody_who_can_be_asked(may: Authoriser, said: str) -> None:
    async def story(cluster: Cluster) -> None:
        await submit(cluster.api, NS, "p", 1)
        await asyncio.sleep(60)
        condition = await cluster.condition("p")
        assert (condition.status, condition.reason) == ("False", "SchedulerError")
        (event,) = await cluster.events("p")
        claim = (await cluster.api.get(GPU_CLAIMS, "p", NS)).status
        snapshot = await read_fresh(cluster.api, "ullage-system")
        pod = snapshot.state.pods[ObjectKey(NS, "p")]
        explained = explain_pod(snapshot, pod, PlanInputs(), now=cluster.clock.now())
        assert str(explained.verdict) == "NotBound"
        assert "goes to" not in explained.message
        for words in (condition.message, event["note"], claim.message, explained.message, cluster.scheduler.unready):
            assert said in words
        assert [step for step in explained.steps if "--identity" in step]

    with capture_logs() as lines:
        play(story, may=may)
    (line,) = [one for one in lines if one["event"] == "placement failed"]
    assert said in line["detail"]
    assert (line["pod"], line["reason"]) == ("default/p", "Forbidden")


def test_many_placements_that_are_not_allowed_are_one_line_and_few_requests_and_end_when_they_are_allowed() -> None:
    role = Role(all_but("pods/binding", "create"))

    async def story(cluster: Cluster) -> None:
        for number in range(10):
            await cluster.api.create(PODS, a_pod(f"p{number}", schedulerName=SCHEDULER), NS)
        await asyncio.sleep(150)
        assert [len(await cluster.events(f"p{number}")) for number in range(10)] == [1] * 10
        cluster.asked.calls.clear()
        await asyncio.sleep(600)
        tried = sum(cluster.asked.about("/binding").values())
        assert 8 <= tried <= 12, "one of them tries for all, once a minute"
        assert sum(cluster.asked.calls.values()) == tried
        role.given = True
        await asyncio.sleep(120)
        nodes = [(await cluster.api.get(PODS, f"p{number}", NS)).spec.node_name for number in range(10)]
        assert all(nodes)
        assert cluster.scheduler.unready == ""

    with capture_logs() as lines:
        play(story, may=role)
    assert len([one for one in lines if one["event"] == "placement failed"]) <= 2, "again after ten minutes"


def test_a_pod_that_may_not_be_placed_holds_up_no_other_and_leaves_the_scheduler_ready() -> None:
    odd = a_pod("odd", schedulerName=SCHEDULER)

    def may(asked: AuthorizationRequest) -> bool:
        return not (asked.user == USER and asked.resource == "pods/binding" and asked.name == "odd")

    async def story(cluster: Cluster) -> None:
        await cluster.api.create(PODS, a_pod("first", schedulerName=SCHEDULER), NS)
        await asyncio.sleep(5)
        await cluster.api.create(PODS, odd, NS)
        await asyncio.sleep(30)
        for number in range(5):
            await cluster.api.create(PODS, a_pod(f"p{number}", schedulerName=SCHEDULER), NS)
        await asyncio.sleep(5)
        for number in range(5):
            assert (await cluster.api.get(PODS, f"p{number}", NS)).spec.node_name
        assert cluster.scheduler.unready == ""
        assert (await cluster.condition("odd")).reason == "SchedulerError"

    play(story, may=may)


@pytest.mark.parametrize("resource", ["storageclasses", "nodes", "leases"])
def test_a_right_to_list_that_is_missing_is_said_once_and_keeps_it_unready_until_it_is_given(resource: str) -> None:
    role = Role(all_but(resource, "list", "watch"))

    async def story(cluster: Cluster) -> None:
        await asyncio.sleep(300)
        before = cluster.scheduler.ready
        assert not before
        assert f'cannot list resource "{resource}"' in cluster.scheduler.unready
        role.given = True
        await asyncio.sleep(60)
        assert cluster.scheduler.ready
        assert cluster.scheduler.unready == ""

    with capture_logs() as lines:
        play(story, may=role)
    said = [one for one in lines if one["event"] == "cannot be heard of"]
    assert [one["what"].partition(".")[0] for one in said] == [resource]
    assert [one for one in lines if one["event"] == "is heard of again"]


@pytest.mark.parametrize(
    ("may", "event"),
    [
        pytest.param(all_but("pods/status", "patch", "update"), "status not written", id="why-pods-wait"),
        pytest.param(
            all_but("gpuclaims.gpu.scheduling/status", "patch", "update"), "status not written", id="how-claims-stand"
        ),
        pytest.param(all_but("events", "create"), "events cannot be written", id="events"),
    ],
)
def test_what_cannot_be_written_is_said_once(may: Authoriser, event: str) -> None:
    async def story(cluster: Cluster) -> None:
        for number in range(3):
            await submit(cluster.api, NS, f"p{number}", 8, pod={"nodeSelector": {"no": "where"}})
        await asyncio.sleep(300)

    with capture_logs() as lines:
        play(story, may=may)
    (line,) = [one for one in lines if one["event"] == event]
    assert "forbidden" in str(line)
