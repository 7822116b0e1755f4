"""What is told of a step: on the NodeProvisioner once, and on every node concerned."""

import pytest

from tests.decide.preemption.fleets import a_node
from tests.decide.provisioning.pools import a_provisioner
from ullage.control.provisioning.reporter import PoolReporter
from ullage.model.instance import Instance
from ullage.model.intents import ScaleUp, TaintForDeletion, TerminateInstance, Untaint
from ullage.model.outcomes import (
    LaunchFailed,
    NodesLaunched,
    PoolActionDone,
    PoolActionFailed,
    PoolFailure,
    PoolOutcome,
)
from ullage.model.provisioner import CloudFailure
from ullage.model.units import Instant
from ullage.observe.events import EventMessage

BUY = ScaleUp(provisioner="pool", count=2, serial=0, token="t", why="2 more")
DOOM = TaintForDeletion(node="a", delete_after=Instant(9.0), why="idle")
MACHINES = tuple(Instance(id=f"i-{number}", pool="pool", since=Instant(0.0)) for number in range(2))


class Paper:
    """A recorder that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[EventMessage] = []

    def record(self, announcement: EventMessage) -> None:
        self.told.append(announcement)


def said(*outcomes: PoolOutcome) -> list[str]:
    paper = Paper()
    there = {name: a_node(name) for name in "ab"}
    PoolReporter(paper, there.get).stepped(a_provisioner(), outcomes)
    return [f"{one.about.kind}/{one.about.key.name} {one.reason}: {one.note}" for one in paper.told]


@pytest.mark.parametrize(
    ("outcomes", "told"),
    [
        pytest.param(
            [NodesLaunched(BUY, MACHINES)],
            ["NodeProvisioner/pool NodesLaunched: bought 2 nodes (i-0, i-1): 2 more"],
            id="bought",
        ),
        pytest.param(
            [NodesLaunched(BUY, MACHINES[:1], CloudFailure.CAPACITY, "one left")],
            [
                "NodeProvisioner/pool NodesLaunched: bought 1 node (i-0): 2 more",
                "NodeProvisioner/pool CapacityBlocked: 1 node not bought: NoCapacity: one left",
            ],
            id="fewer-than-asked-for",
        ),
        pytest.param(
            [LaunchFailed(BUY, CloudFailure.QUOTA, "8 vCPUs")],
            ["NodeProvisioner/pool CapacityBlocked: 2 nodes not bought: QuotaReached: 8 vCPUs"],
            id="quota",
        ),
        pytest.param(
            [LaunchFailed(BUY, None, "timeout")],
            ["NodeProvisioner/pool ScaleUpFailed: 2 nodes not bought: OutcomeUnknown: timeout"],
            id="nobody-knows",
        ),
        pytest.param(
            [PoolActionDone(DOOM), PoolActionDone(TaintForDeletion(node="b", delete_after=Instant(9.0), why="idle"))],
            [
                "Node/a NodeTaintedForDeletion: tainted to be removed: idle",
                "Node/b NodeTaintedForDeletion: tainted to be removed: idle",
                "NodeProvisioner/pool NodeTaintedForDeletion: 2 nodes tainted to be removed (a, b): idle",
            ],
            id="tainted",
        ),
        pytest.param(
            [PoolActionDone(Untaint(node="a", why="wanted"))],
            [
                "Node/a NodeUntainted: no longer to be removed: wanted",
                "NodeProvisioner/pool NodeUntainted: 1 node no longer to be removed (a): wanted",
            ],
            id="spared",
        ),
        pytest.param(
            [
                PoolActionDone(TerminateInstance(node="a", instance="i-0", why="empty")),
                PoolActionFailed(
                    TerminateInstance(node="b", instance="i-1", why=""), PoolFailure.CLOUD_FAILED, "no answer"
                ),
            ],
            [
                "Node/a NodeRemoved: removed: empty",
                "Node/b NodeNotRemoved: not removed: CloudFailed: no answer",
                "NodeProvisioner/pool NodeRemoved: 1 node removed (a): empty",
                "NodeProvisioner/pool NodeNotRemoved: 1 node not removed (b): CloudFailed: no answer",
            ],
            id="removed-and-not-removed",
        ),
        pytest.param(
            [PoolActionDone(TerminateInstance(node="", instance="i-0", why="late", lost=True))],
            ["NodeProvisioner/pool NodeFailedToRegister: 1 node given up (i-0): late"],
            id="never-joined",
        ),
        pytest.param([PoolActionFailed(DOOM, PoolFailure.PROTECTED, "")], [], id="what-a-node-may-always-do"),
    ],
)
def test_what_is_told(outcomes: list[PoolOutcome], told: list[str]) -> None:
    assert said(*outcomes) == told


def test_many_nodes_are_not_all_named() -> None:
    many = [
        PoolActionDone(TaintForDeletion(node=f"n{number}", delete_after=Instant(9.0), why="idle"))
        for number in range(20)
    ]
    assert said(*many)[-1].endswith("(n0, n1, n2, n3, n4 and 15 more): idle")
