"""May this pod be moved? One row a rule, and what comes before what."""

from pathlib import Path
from typing import Any

import pytest

import ullage
from tests.decide.draining.fleets import NOW, WEB, pod
from tests.decide.preemption.fleets import a_budget
from ullage.decide.draining.inputs import RuleSwitches
from ullage.decide.draining.pdb import RemainingPdbTracker
from ullage.decide.draining.rules import (
    RULES,
    Drainability,
    DrainabilityCache,
    DrainBlocked,
    DrainContext,
    drainability,
)
from ullage.model.draining import UnremovableReason, WorkloadReplicas
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Owner, Phase
from ullage.model.pod_marks import SafeToEvict

LEFT, GONE = NOW - 59, NOW - 61
DAEMON, MINE = Owner("DaemonSet", "d", "d"), Owner("CloneSet", "c", "c")
YES, NO = {"safe_to_evict": SafeToEvict.YES}, {"safe_to_evict": SafeToEvict.NO}
LATER = {"safe_to_evict": SafeToEvict.ON_COMPLETION}
DISK = {"local_volumes": ("cache",)}
SYSTEM = {"namespace": "kube-system", "created": NOW - 60}
SMALL = {"uid-web": WorkloadReplicas(uid="uid-web", kind="ReplicaSet", target=1, current=1)}

STORIES: dict[str, tuple[dict[str, Any], dict[str, Any], Drainability | UnremovableReason]] = {
    "nothing-speaks-against-it": ({}, {}, Drainability.EVICT),
    "a-mirror-pod": ({"marks": {"mirror": True}, "owner": None}, {}, Drainability.LEAVES_WITH_NODE),
    "a-static-pod-of-a-node": ({"owner": Owner("Node", "a", "a")}, {}, Drainability.LEAVES_WITH_NODE),
    "it-should-be-gone-for-long": ({"marks": {"deleted_at": GONE}, "owner": None}, {}, Drainability.SKIP),
    "it-is-still-leaving": ({"marks": {"deleted_at": LEFT}}, {}, Drainability.EVICT),
    "its-controller-is-gone": ({}, {"kinds": {"ReplicaSet"}}, UnremovableReason.CONTROLLER_NOT_FOUND),
    "gone-though-it-is-safe": ({"marks": YES}, {"kinds": {"ReplicaSet"}}, UnremovableReason.CONTROLLER_NOT_FOUND),
    "nobody-looked-for-its-controller": ({}, {"kinds": {"Job"}}, Drainability.EVICT),
    "another-group-s-replica-set": (
        {"marks": {"owner_group": "example.com"}},
        {"kinds": {"ReplicaSet"}},
        Drainability.EVICT,
    ),
    "too-few-replicas": (
        {"marks": {"owner_group": "apps"}},
        {"kinds": {"ReplicaSet"}, "workloads": SMALL, "min_replicas": 2},
        UnremovableReason.TOO_FEW_REPLICAS,
    ),
    "enough-replicas": ({}, {"kinds": {"ReplicaSet"}, "workloads": SMALL, "min_replicas": 1}, Drainability.EVICT),
    "a-daemon-set-s": ({"owner": DAEMON, "marks": NO}, {}, Drainability.LEAVES_WITH_NODE),
    "annotated-as-a-daemon-s": ({"owner": None, "marks": {"daemon": True}}, {}, Drainability.LEAVES_WITH_NODE),
    "safe-though-nobody-makes-it-again": ({"owner": None, "marks": YES | DISK}, {}, Drainability.EVICT),
    "failed": ({"phase": Phase.FAILED, "owner": None}, {}, Drainability.SKIP),
    "succeeded-and-not-restarted": (
        {"phase": Phase.SUCCEEDED, "owner": None, "marks": {"restart": "OnFailure"}},
        {},
        Drainability.SKIP,
    ),
    "to-finish-first": ({"marks": LATER, "owner": None}, {}, Drainability.WAIT_FOR_COMPLETION),
    "nobody-makes-it-again": ({"owner": None}, {}, UnremovableReason.NOT_REPLICATED),
    "a-controller-of-somebody-s": ({"owner": MINE}, {}, UnremovableReason.NOT_REPLICATED),
    "such-controllers-are-trusted": ({"owner": MINE}, {"custom_controllers_stay": False}, Drainability.EVICT),
    "a-system-pod": (SYSTEM, {}, UnremovableReason.SYSTEM_POD),
    "an-old-system-pod-with-data": (SYSTEM | {"created": NOW - 3601, "marks": DISK}, {}, Drainability.EVICT),
    "system-pods-are-as-others": (SYSTEM, {"system_pods_stay": False}, Drainability.EVICT),
    "said-to-be-unsafe": ({"marks": NO}, {}, UnremovableReason.NOT_SAFE_TO_EVICT),
    "data-on-the-node": ({"marks": DISK}, {}, UnremovableReason.LOCAL_STORAGE),
    "data-does-not-matter": ({"marks": DISK}, {"local_storage_stays": False}, Drainability.EVICT),
    "its-budget-is-spent": ({"labels": {"app": "spent"}}, {}, UnremovableReason.NOT_ENOUGH_PDB),
    "spent-and-it-never-started": ({"labels": {"app": "spent"}, "phase": Phase.PENDING}, {}, Drainability.EVICT),
    "two-budgets": ({"labels": {"app": "twice"}}, {}, UnremovableReason.SEVERAL_PDBS),
    "two-budgets-though-it-is-safe": ({"labels": {"app": "twice"}, "marks": YES}, {}, UnremovableReason.SEVERAL_PDBS),
}


@pytest.mark.parametrize(("facts", "around", "expected"), STORIES.values(), ids=STORIES)
def test_what_becomes_of_a_pod(
    facts: dict[str, Any], around: dict[str, Any], expected: Drainability | UnremovableReason
) -> None:
    kinds, workloads = around.get("kinds", set()), around.get("workloads", {})
    switches = {name: value for name, value in around.items() if name not in ("kinds", "workloads")}
    if facts.get("owner", WEB) is WEB and "owner_group" not in facts.get("marks", {}):
        facts = facts | {"marks": facts.get("marks", {}) | {"owner_group": "apps"}}
    budgets = [a_budget("spent", "spent", 0), a_budget("one", "twice", 5), a_budget("two", "twice", 5)]
    known = DrainContext(
        RuleSwitches(**switches), RemainingPdbTracker({one.key: one for one in budgets}), workloads, kinds, NOW
    )
    asked = pod("p", "a", **facts)
    found = drainability(asked, known)
    assert (found.reason if isinstance(found, DrainBlocked) else found) is expected
    drainabilities = DrainabilityCache(known)
    assert [drainabilities.of(asked), drainabilities.of(asked)] == [found, found]


def test_each_rule_has_a_name_of_its_own() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES) == 14


def test_the_page_has_the_words_of_every_rule_in_order() -> None:
    page = (Path(ullage.__file__).parent.parent / "docs" / "draining.md").read_text()
    rows = "".join(f"| {number} | {rule.words} |\n" for number, rule in enumerate(RULES, 1))
    assert rows in page


HEALTH: dict[str, tuple[dict[str, Any], dict[str, Any], int]] = {
    "ready": ({}, {}, 1),
    "not-ready-and-others-are": ({"marks": {"ready": False}}, {"current_healthy": 3, "desired_healthy": 3}, 0),
    "not-ready-and-too-few-are": ({"marks": {"ready": False}}, {"current_healthy": 2, "desired_healthy": 3}, 1),
    "not-ready-and-nobody-has-to-be": ({"marks": {"ready": False}}, {"current_healthy": 0, "desired_healthy": 0}, 1),
    "not-ready-and-always-allowed": (
        {"marks": {"ready": False}},
        {"current_healthy": 0, "desired_healthy": 3, "evict_unhealthy": True},
        0,
    ),
    "never-started": ({"phase": Phase.PENDING}, {}, 0),
    "leaving-already": ({"deleting": True}, {}, 0),
    "of-another-app": ({"labels": {"app": "b"}}, {}, 0),
    "of-another-namespace": ({"namespace": "m"}, {}, 0),
}


@pytest.mark.parametrize(("facts", "budget", "cost"), HEALTH.values(), ids=HEALTH)
def test_what_an_eviction_costs(facts: dict[str, Any], budget: dict[str, Any], cost: int) -> None:
    one = a_budget("b", "a", 2, **budget)
    budgets = RemainingPdbTracker({one.key: one})
    budgets.charge([pod("p", "n1", **{"labels": {"app": "a"}, **facts})])
    assert budgets.left == {ObjectKey("n", "b"): 2 - cost}


def test_a_status_behind_its_spec_allows_nothing() -> None:
    one = a_budget("b", "a", 2, current=False)
    assert RemainingPdbTracker({one.key: one}).left == {ObjectKey("n", "b"): 0}
