"""The judge of disruption finds what was wrong only for a moment: sound histories, and every way to break them."""

import asyncio
import random
from typing import Any

import pytest
from msgspec import convert

from ullage.clock import Instant, WallClock
from ullage.kube.client.api import DELETE_NOW
from ullage.kube.client.resources import BUDGETS, NODES, PODS
from ullage.kube.client.rest import RestApi
from ullage.kube.objects.node import KubeNode
from ullage.kube.objects.pod import KubePod
from ullage.kube.objects.policy import KubePodDisruptionBudget
from ullage.kube.timestamps import write_time
from ullage.model.fact_event import ObjectKey
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.testing.builders import a_budget, a_node, a_pod, a_taint, with_meta
from ullage.testing.checks.disruption import (
    Change,
    DisruptionHistory,
    Fact,
    below_minimum,
    bound_late,
    drains,
    left_marked,
    minimum,
    most_at_once,
    timers,
    went_with_pods,
)

NOW = Instant(1_000_000.0)
WEB = ObjectKey("default", "web")
DRAINING, CANDIDATE = "going", "may-go"

Told = Fact | tuple[Fact, str]
"""A pair is something that is gone."""


def pod(
    name: str, node: str = "n", *, ready: bool = True, phase: str = "Running", app: str = "web", **meta: object
) -> KubePod:
    body = with_meta(a_pod(name, labels={"app": app}, nodeName=node), uid=f"uid-{name}", namespace="default", **meta)
    status = {"phase": phase, "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}
    return convert(body | {"status": status}, KubePod)


def ending(name: str, *, due: float = NOW) -> KubePod:
    return pod(name, deletionTimestamp=write_time(Instant(due)))


def budget(**spec: object) -> KubePodDisruptionBudget:
    return convert(
        with_meta(a_budget("web", {"app": "web"}, **spec), uid="uid-web", namespace="default"), KubePodDisruptionBudget
    )


def node(name: str = "n", **taints: str) -> KubeNode:
    found = [a_taint(key.replace("_", "-"), value) for key, value in taints.items()]
    return convert(with_meta(a_node(name, taints=found), uid=f"uid-{name}"), KubeNode)


def gone(fact: Fact) -> tuple[Fact, str]:
    return fact, "gone"


def told(*facts: Told, seconds_apart: float = 1.0) -> list[Change]:
    """In this order, and given to the judges the other way round: they have to look at versions."""
    changes = [
        Change(
            version,
            fact[0] if isinstance(fact, tuple) else fact,
            isinstance(fact, tuple),
            NOW + version * seconds_apart,
        )
        for version, fact in enumerate(facts, start=1)
    ]
    return changes[::-1]


@pytest.mark.parametrize(
    ("spec", "replicas", "least"),
    [
        pytest.param({"minAvailable": 2}, 3, 2, id="a-number"),
        pytest.param({"minAvailable": "50%"}, 5, 3, id="a-part-is-rounded-up"),
        pytest.param({"maxUnavailable": 1}, 3, 2, id="all-but-one"),
        pytest.param({"maxUnavailable": "30%"}, 5, 3, id="all-but-a-part-that-is-rounded-up"),
        pytest.param({"maxUnavailable": 5}, 3, 0, id="all-may-go"),
        pytest.param({}, 3, 0, id="nothing-said"),
    ],
)
def test_what_a_budget_asks_for(spec: dict[str, object], replicas: int, least: int) -> None:
    assert minimum(budget(**spec), replicas) == least


TWO_OF_THREE = (budget(minAvailable=2), pod("a"), pod("b"), pod("c"))


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        pytest.param((budget(minAvailable=2), pod("a")), [], id="not-yet-enough-is-no-breach"),
        pytest.param((*TWO_OF_THREE, ending("a"), gone(ending("a"))), [], id="down-to-the-minimum"),
        pytest.param(
            (*TWO_OF_THREE, ending("a"), pod("d"), ending("b"), pod("e")), [], id="one-after-another-with-replacements"
        ),
        pytest.param(
            (*TWO_OF_THREE, ending("a"), ending("b"), pod("d"), pod("e")),
            ["at 6 default/web had 1 pods of 2"],
            id="two-at-once-though-replaced",
        ),
        pytest.param(
            (*TWO_OF_THREE, gone(pod("a")), gone(pod("b"))), ["at 6 default/web had 1 pods of 2"], id="vanished-at-once"
        ),
        pytest.param(
            (*TWO_OF_THREE, ending("a"), pod("b", ready=False)),
            ["at 6 default/web had 1 pods of 2"],
            id="evicted-while-another-is-unready",
        ),
        pytest.param(
            (*TWO_OF_THREE, ending("a"), pod("d", phase="Pending"), ending("b")),
            ["at 7 default/web had 1 pods of 2"],
            id="a-replacement-that-does-not-run-does-not-count",
        ),
        pytest.param(
            (*TWO_OF_THREE, ending("a"), pod("d", app="other"), ending("b")),
            ["at 7 default/web had 1 pods of 2"],
            id="others-do-not-count",
        ),
        pytest.param(
            (*TWO_OF_THREE, ending("a"), ending("b"), gone(pod("c")), pod("d"), pod("e"), ending("d")),
            ["at 6 default/web had 1 pods of 2", "at 10 default/web had 1 pods of 2"],
            id="said-once-for-each-time",
        ),
        pytest.param(
            (pod("a"), pod("b"), budget(minAvailable=2), ending("a")),
            ["at 4 default/web had 1 pods of 2"],
            id="a-budget-made-later-counts-those-there-are",
        ),
        pytest.param(
            (*TWO_OF_THREE, ending("a"), budget(minAvailable=3), pod("d")), [], id="asking-for-more-is-nobodys-fault"
        ),
        pytest.param(
            (*TWO_OF_THREE, gone(budget(minAvailable=2)), ending("a"), ending("b")), [], id="without-a-budget"
        ),
    ],
)
def test_budgets_are_kept_or_not(facts: tuple[Told, ...], found: list[str]) -> None:
    assert list(below_minimum(told(*facts), {WEB: 3})) == found


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        pytest.param((pod("a", ""), node(), pod("a")), [], id="in-time"),
        pytest.param((pod("a", ""), node(), node(), pod("a")), ["default/a waited 3.0 s for a node"], id="late"),
        pytest.param(
            (pod("a"), pod("b", ""), node(), node()),
            ["default/b has waited for 2.0 s, and has no node"],
            id="still-waiting-at-the-end",
        ),
        pytest.param((pod("a", ""), gone(pod("a", "")), node(), node()), [], id="gone-in-time"),
        pytest.param((pod("a"), node(), node(), node(), pod("a")), [], id="made-on-a-node"),
    ],
)
def test_replacements_in_time_or_not(facts: tuple[Told, ...], found: list[str]) -> None:
    assert list(bound_late(told(*facts), after=0, within=2.5)) == found


def test_pods_made_before_are_not_judged() -> None:
    history = told(pod("a", ""), node(), node(), node(), pod("a", ""), node(), pod("a"))
    assert list(bound_late(history, after=1, within=2.5)) == []


DAEMON: dict[str, Any] = {"ownerReferences": [{"kind": "DaemonSet", "controller": True}]}


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        pytest.param((node(), pod("a"), gone(pod("a")), gone(node())), [], id="empty"),
        pytest.param((node(), pod("a"), gone(node())), ["at 3 n went with default/a on it"], id="a-pod-on-it"),
        pytest.param((node(), pod("a", "other"), gone(node())), [], id="a-pod-elsewhere"),
        pytest.param((node(), pod("a", **DAEMON), gone(node())), [], id="a-daemon"),
        pytest.param((node(), pod("a", phase="Succeeded"), gone(node())), [], id="a-pod-that-is-over"),
        pytest.param(
            (node(), ending("a"), gone(node())), ["at 3 n went with default/a on it"], id="one-that-is-ending"
        ),
        pytest.param((node(), ending("a", due=NOW - 60), gone(node())), [], id="one-that-should-long-be-gone"),
        pytest.param(
            (node(), pod("a", ""), pod("a"), gone(node())),
            ["at 4 n went with default/a on it"],
            id="one-bound-just-before",
        ),
    ],
)
def test_nodes_that_go(facts: tuple[Told, ...], found: list[str]) -> None:
    assert list(went_with_pods(told(*facts))) == found


def test_drains_are_found_with_what_became_of_them() -> None:
    history = told(
        node("a"),
        node("b", may_go="3"),
        pod("p", "a"),
        pod("q", "a"),
        pod("agent", "a", **DAEMON),
        node("a", going="7"),
        node("b", going="8", may_go="3"),
        gone(pod("p", "a")),
        node("a", going="7"),
        gone(node("b", going="8")),
        node("a"),
        node("a", going="12"),
    )
    found = drains(history, draining=DRAINING, candidate=CANDIDATE)
    assert [(one.node, one.begun, one.ended, one.gone) for one in found] == [
        ("a", 6, 11, False),
        ("b", 7, 10, True),
        ("a", 12, None, False),
    ]
    assert [(one.value, one.pods, one.candidate_since) for one in found] == [("7", 2, ""), ("8", 0, "3"), ("12", 1, "")]
    assert most_at_once(found) == 2
    assert most_at_once(found[::2]) == 1
    assert most_at_once([]) == 0


def test_timers_are_told_value_by_value() -> None:
    history = told(
        node("a", may_go="3"),
        node("b"),
        node("a", may_go="3"),
        node("a"),
        node("a", may_go="9"),
        gone(node("a", may_go="9")),
    )
    assert timers(history, candidate=CANDIDATE) == {"a": ["3", "9"]}


def test_nodes_left_marked_are_found() -> None:
    closed = convert(with_meta(a_node("c", unschedulable=True)), KubeNode)
    nodes = [node("a"), node("b", going="1"), closed, node("d", other="1")]
    assert list(left_marked(nodes, DRAINING)) == ["b is left with going", "c is left with unschedulable"]


async def test_it_records_what_is_there_what_comes_and_what_goes() -> None:
    api = RestApi(InMemoryTransport(SimulatedApiServer(WallClock(), seed=1)), rng=random.Random(1))
    await api.create(NODES, a_node("n"))
    async with DisruptionHistory(api) as history:
        await api.create(BUDGETS, a_budget("web", {"app": "web"}, minAvailable=1), "default")
        await api.create(PODS, a_pod("a", labels={"app": "web"}, nodeName="n"), "default")
        await api.delete(PODS, "a", "default", how=DELETE_NOW)
        await api.delete(NODES, "n")
        async with asyncio.timeout(5):
            while not any(isinstance(one.fact, KubeNode) and one.gone for one in history.changes):
                await history.noted()
        await history.whole()
    kinds = {(type(one.fact).__name__, one.gone) for one in history.changes}
    assert kinds == {
        ("KubeNode", False),
        ("KubeNode", True),
        ("KubePodDisruptionBudget", False),
        ("KubePod", False),
        ("KubePod", True),
    }
