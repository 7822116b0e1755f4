"""A pool in a few words, and a story of it: loops run one after another, at the times the story says."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from ullage.decide.provisioning.pool_size import evaluate
from ullage.decide.provisioning.pool_step import PoolStep, PoolStepKind, next_step
from ullage.model.intents import ScaleUp, TaintForDeletion, TerminateInstance, Untaint
from ullage.model.provisioner import GpuTemplate, NodeTemplate, PoolNode, PoolThresholds, Provisioner
from ullage.model.units import Bytes, Instant

DELAY = 600.0


def a_provisioner(name: str = "pool", **said: Any) -> Provisioner:
    """Nodes of one GPU unless said, shrinking below 80 %."""
    gpus = said.pop("gpus", GpuTemplate(model="H100", count=1, memory=Bytes(80 << 30)))
    facts = {f: said.pop(f) for f in ("purchase", "purchases", "awaited", "back_off") if f in said}
    template = {f: said.pop(f) for f in ("labels", "taints", "resources", "price", "zones") if f in said}
    limits = {"max_size": 1000, "min_utilization_percent": 80, "scale_down_delay": DELAY} | said
    return Provisioner(
        name=name,
        uid=f"uid-{name}",
        generation=1,
        template=NodeTemplate(gpus=gpus, **template),
        thresholds=PoolThresholds(**limits),
        provider="simulated",
        **facts,
    )


def a_node(name: str, *, used: int = 0, of: int = 1, **facts: Any) -> PoolNode:
    """A node on which so many of its GPUs are in use."""
    plain: dict[str, Any] = {"empty": not used, "instance": f"i-{name}"}
    return PoolNode(name=name, capacity=1000 * of, used=1000 * used, **(plain | facts))


def nodes(busy: int, idle: int, *, of: int = 1) -> list[PoolNode]:
    full = [a_node(f"node-{place:03}", used=of, of=of) for place in range(busy)]
    return full + [a_node(f"node-{place:03}", of=of) for place in range(busy, busy + idle)]


class PoolStory:
    """A pool that does what it is told at once. Every loop is checked for what must always hold."""

    def __init__(self, provisioner: Provisioner, pool: Sequence[PoolNode], *, now: float = 0.0) -> None:
        self.provisioner = provisioner
        self.nodes = {node.name: node for node in pool}
        self.now = now
        self.bought = 0
        self.target = len(pool)

    def use(self, busy: int) -> None:
        """So many nodes are in use, in the order of their names; doomed ones get no new pods."""
        self.nodes = {name: replace(node, used=0, empty=True) for name, node in self.nodes.items()}
        open_ones = [name for name in sorted(self.nodes) if not self.nodes[name].marked_for_deletion]
        for name in open_ones[:busy]:
            self.nodes[name] = replace(self.nodes[name], used=self.nodes[name].capacity, empty=False)

    def loop(self, *, wanted: int = 0) -> dict[PoolStepKind, int]:
        """One loop: what kind of action was taken, and how often."""
        pool = list(self.nodes.values())
        evaluation = evaluate(pool, self.provisioner.thresholds, wanted=wanted)
        step = next_step(self.provisioner, pool, evaluation, now=Instant(self.now))
        self.target = evaluation.target
        self._perform(step)
        limits = self.provisioner.thresholds
        assert limits.min_size <= evaluation.target <= limits.max_size or len(pool) > limits.max_size
        return {step.kind: self._size(step)} if step.actions else {}

    def settle(self, *, wanted: int = 0) -> list[dict[PoolStepKind, int]]:
        """Loops until one does nothing."""
        done = []
        while step := self.loop(wanted=wanted):
            done.append(step)
            wanted = max(0, wanted - step.get(PoolStepKind.SCALE_UP, 0))
        return done

    @property
    def tainted(self) -> int:
        return sum(node.marked_for_deletion for node in self.nodes.values())

    def _size(self, step: PoolStep) -> int:
        return sum(action.count if isinstance(action, ScaleUp) else 1 for action in step.actions)

    def _perform(self, step: PoolStep) -> None:
        assert len(Counter(type(action) for action in step.actions)) <= 1, "one kind of action per loop"
        for action in step.actions:
            match action:
                case ScaleUp(count=count):
                    for _ in range(count):
                        name = f"bought-{self.bought:03}"
                        self.nodes[name] = a_node(name, of=self.provisioner.template.gpus.count)
                        self.bought += 1
                case TaintForDeletion(node=name, delete_after=moment):
                    assert self.nodes[name].empty
                    self.nodes[name] = replace(self.nodes[name], delete_after=moment)
                case Untaint(node=name):
                    self.nodes[name] = replace(self.nodes[name], delete_after=None)
                case TerminateInstance(node=name):
                    gone = self.nodes.pop(name)
                    assert gone.failed_to_register or (
                        gone.empty and gone.delete_after is not None and gone.delete_after <= self.now
                    )
