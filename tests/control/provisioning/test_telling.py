"""What is told of a step: on the NodeProvisioner once, and on every node concerned."""

import pytest

from tests.decide.pool.pools import a_provisioner
from tests.decide.preempt.fleets import a_node
from ullage.control.provisioning.telling import PoolTeller
from ullage.model.instance import Instance
from ullage.model.pool_action import Deprovision, Doom, Provision, Spare
from ullage.model.pool_outcome import Bought, NotBought, PoolDone, PoolNotDone, PoolOutcome, PoolSetback
from ullage.model.provisioner import Failure
from ullage.observe.events import Announcement

BUY = Provision(provisioner="pool", count=2, serial=0, token="t", why="2 more")
DOOM = Doom(node="a", delete_after=9.0, why="idle")
MACHINES = tuple(Instance(id=f"i-{number}", pool="pool", since=0.0) for number in range(2))


class Paper:
    """A recorder that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[Announcement] = []

    def tell(self, announcement: Announcement) -> None:
        self.told.append(announcement)


def said(*outcomes: PoolOutcome) -> list[str]:
    paper = Paper()
    there = {name: a_node(name) for name in "ab"}
    PoolTeller(paper, there.get).stepped(a_provisioner(), outcomes)
    return [f"{one.about.kind}/{one.about.key.name} {one.reason}: {one.note}" for one in paper.told]


@pytest.mark.parametrize(
    ("outcomes", "told"),
    [
        pytest.param(
            [Bought(BUY, MACHINES)],
            ["NodeProvisioner/pool NodesBought: bought 2 nodes (i-0, i-1): 2 more"],
            id="bought",
        ),
        pytest.param(
            [Bought(BUY, MACHINES[:1], Failure.CAPACITY, "one left")],
            [
                "NodeProvisioner/pool NodesBought: bought 1 node (i-0): 2 more",
                "NodeProvisioner/pool CapacityBlocked: 1 node not bought: NoCapacity: one left",
            ],
            id="fewer-than-asked-for",
        ),
        pytest.param(
            [NotBought(BUY, Failure.QUOTA, "8 vCPUs")],
            ["NodeProvisioner/pool CapacityBlocked: 2 nodes not bought: QuotaReached: 8 vCPUs"],
            id="quota",
        ),
        pytest.param(
            [NotBought(BUY, None, "timeout")],
            ["NodeProvisioner/pool PurchaseFailed: 2 nodes not bought: OutcomeUnknown: timeout"],
            id="nobody-knows",
        ),
        pytest.param(
            [PoolDone(DOOM), PoolDone(Doom(node="b", delete_after=9.0, why="idle"))],
            [
                "Node/a NodeTainted: tainted to be removed: idle",
                "Node/b NodeTainted: tainted to be removed: idle",
                "NodeProvisioner/pool NodeTainted: 2 nodes tainted to be removed (a, b): idle",
            ],
            id="tainted",
        ),
        pytest.param(
            [PoolDone(Spare(node="a", why="wanted"))],
            [
                "Node/a NodeSpared: no longer to be removed: wanted",
                "NodeProvisioner/pool NodeSpared: 1 node no longer to be removed (a): wanted",
            ],
            id="spared",
        ),
        pytest.param(
            [
                PoolDone(Deprovision(node="a", instance="i-0", why="empty")),
                PoolNotDone(Deprovision(node="b", instance="i-1", why=""), PoolSetback.CLOUD_FAILED, "no answer"),
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
            [PoolDone(Deprovision(node="", instance="i-0", why="late", lost=True))],
            ["NodeProvisioner/pool NodeNeverJoined: 1 node given up (i-0): late"],
            id="never-joined",
        ),
        pytest.param([PoolNotDone(DOOM, PoolSetback.PROTECTED, "")], [], id="what-a-node-may-always-do"),
    ],
)
def test_what_is_told(outcomes: list[PoolOutcome], told: list[str]) -> None:
    assert said(*outcomes) == told


def test_many_nodes_are_not_all_named() -> None:
    many = [PoolDone(Doom(node=f"n{number}", delete_after=9.0, why="idle")) for number in range(20)]
    assert said(*many)[-1].endswith("(n0, n1, n2, n3, n4 and 15 more): idle")
