"""Drainability rules: may this pod be evicted? The first rule that answers decides. No node is read."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from ullage.decide.draining.inputs import RuleSwitches
from ullage.decide.draining.pdb import RemainingPdbTracker
from ullage.decide.vms.rest import MigrationStarts
from ullage.model.draining import UnremovableReason, WorkloadReplicas
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Phase, Pod
from ullage.model.pod_marks import SafeToEvict
from ullage.model.units import Instant, Seconds, after, elapsed
from ullage.model.vm import Vm
from ullage.state.vm_ledger import VmLedger

GONE_FOR = 30.0
"""Seconds after its grace period from which a pod being deleted is ignored."""

SYSTEM = "kube-system"
_GROUPS = {"ReplicationController": "", "Job": "batch", "ReplicaSet": "apps", "StatefulSet": "apps"}
"""Controllers of Kubernetes that replace pods on other nodes, with their API groups."""
_WATCHED = _GROUPS | {"DaemonSet": "apps"}
_COUNTED = ("ReplicationController", "ReplicaSet")


class Drainability(Enum):
    """Treatment of a pod whose node is removed."""

    EVICT = "is evicted"
    MIGRATE = "is migrated"
    """Pod of a VM: it goes on running while it moves, and no disruption budget is used."""
    LEAVES_WITH_NODE = "leaves with its node"
    SKIP = "is skipped"
    """Finished, or long overdue: it needs no place."""
    WAIT_FOR_COMPLETION = "is waited for"


@dataclass(frozen=True, slots=True)
class DrainBlocked:
    """The pod must stay on its node."""

    reason: UnremovableReason
    detail: str = ""


@dataclass(frozen=True, slots=True)
class DrainContext:
    """Inputs of the rules beside the pod."""

    switches: RuleSwitches
    budgets: RemainingPdbTracker
    workloads: Mapping[str, WorkloadReplicas]
    workload_kinds: Collection[str]
    now: Instant
    vms: VmLedger | None = None
    """VMs, where the cluster has them."""
    vm_starts: MigrationStarts = field(default_factory=MigrationStarts)

    def at(self, now: Instant) -> "DrainContext":
        """The same context at another time."""
        return replace(self, now=now)


Answer = Drainability | DrainBlocked | None


def _always_on(_: RuleSwitches) -> bool:
    return True


def is_overdue(pod: Pod, *, now: Instant) -> bool:
    """True if a pod being deleted is overdue: its kubelet is dead, or a finalizer holds it. It is not waited for."""
    moment = _overdue_at(pod)
    return moment is not None and moment < now


def next_overdue(pods: Iterable[Pod], *, now: Instant) -> Instant | None:
    """Time at which the next pod being deleted becomes overdue. No event tells that, so the loop needs a deadline."""
    moments = (_overdue_at(pod) for pod in pods if pod.deleting)
    return min((moment for moment in moments if moment is not None and moment >= now), default=None)


def next_rested(vms: VmLedger, rest: Seconds, starts: MigrationStarts, *, now: Instant) -> Instant | None:
    """Time at which the next VM may be migrated again. No event tells that."""
    begun = (starts.last(vm, now=now) for vm in vms.vms())
    moments = (after(moment, rest) for moment in begun if moment is not None)
    return min((moment for moment in moments if moment > now), default=None)


def _overdue_at(pod: Pod) -> Instant | None:
    marks = pod.marks
    return None if marks.deleted_at is None else Instant(marks.deleted_at + marks.grace_period + GONE_FOR)


def mirror_pod(pod: Pod, _: DrainContext) -> Answer:
    kubelets = pod.marks.mirror or (pod.owner is not None and pod.owner.kind == "Node")
    return Drainability.LEAVES_WITH_NODE if kubelets else None


def overdue_pod(pod: Pod, context: DrainContext) -> Answer:
    return Drainability.SKIP if is_overdue(pod, now=context.now) else None


def controller_gone_or_small(pod: Pod, context: DrainContext) -> Answer:
    owner = pod.owner
    if owner is None:
        return None
    known = context.workloads.get(owner.uid)
    if known is None:
        ours = owner.kind in context.workload_kinds and _WATCHED.get(owner.kind) == pod.marks.owner_group
        return (
            DrainBlocked(UnremovableReason.CONTROLLER_NOT_FOUND, f"{owner.kind} {owner.name} is gone") if ours else None
        )
    least = context.switches.min_replicas
    if owner.kind in _COUNTED and known.target < least:
        return DrainBlocked(
            UnremovableReason.TOO_FEW_REPLICAS, f"{owner.kind} {owner.name} has {known.target} of at least {least}"
        )
    return None


def daemon_pod(pod: Pod, _: DrainContext) -> Answer:
    daemons = pod.marks.daemon or (pod.owner is not None and pod.owner.kind == "DaemonSet")
    return Drainability.LEAVES_WITH_NODE if daemons else None


def virtual_machine(pod: Pod, context: DrainContext) -> Answer:
    vm = None if pod.vm is None or context.vms is None else context.vms.vm(ObjectKey(pod.key.namespace, pod.vm.name))
    if vm is None or pod.phase.over or pod.deleting or pod.marks.safe_to_evict is SafeToEvict.NO:
        return None
    if vm.migratable:
        waits = _no_migration_now(pod, vm, context)
        return Drainability.MIGRATE if waits is None else DrainBlocked(UnremovableReason.VM_NOT_NOW, waits)
    if context.switches.evict_vms or pod.marks.safe_to_evict is SafeToEvict.YES:
        return Drainability.EVICT
    return DrainBlocked(UnremovableReason.VM_NOT_MIGRATABLE, f"VirtualMachine {vm.key} may not be migrated")


def _no_migration_now(pod: Pod, vm: Vm, context: DrainContext) -> str | None:
    """Reason that a VM cannot be migrated yet; None if it can, or is on its way already."""
    known = None if context.vms is None else context.vms.pod(pod.key)
    if context.vms is None or known is None:
        return "its pod is not counted yet"
    if known.incoming:
        return f"VirtualMachine {vm.key} is just being migrated to this node"
    account = context.vms.account(pod.key)
    if account.migrating:
        return None
    if not account.known:
        return f"the approval of VirtualMachine {vm.key} is not known"
    last = context.vm_starts.last(vm, now=context.now)
    if last is not None and elapsed(last, context.now) < context.switches.vm_rest:
        return f"VirtualMachine {vm.key} was migrated lately, and rests"
    return None


def safe_to_evict(pod: Pod, _: DrainContext) -> Answer:
    return Drainability.EVICT if pod.marks.safe_to_evict is SafeToEvict.YES else None


def finished_pod(pod: Pod, _: DrainContext) -> Answer:
    if pod.phase is Phase.FAILED:
        return Drainability.SKIP
    return Drainability.SKIP if pod.phase is Phase.SUCCEEDED and pod.marks.restart != "Always" else None


def evict_on_completion(pod: Pod, _: DrainContext) -> Answer:
    return Drainability.WAIT_FOR_COMPLETION if pod.marks.safe_to_evict is SafeToEvict.ON_COMPLETION else None


def no_controller(pod: Pod, _: DrainContext) -> Answer:
    return DrainBlocked(UnremovableReason.NOT_REPLICATED, "it has no controller") if pod.owner is None else None


def custom_controller(pod: Pod, _: DrainContext) -> Answer:
    if pod.owner is None or pod.owner.kind in _GROUPS:
        return None
    return DrainBlocked(UnremovableReason.NOT_REPLICATED, f"{pod.owner.kind} may not make it again")


def system_pod(pod: Pod, context: DrainContext) -> Answer:
    if pod.key.namespace != SYSTEM or context.budgets.over(pod):
        return None
    if pod.created and pod.created + context.switches.system_pod_timeout < context.now:
        return Drainability.EVICT
    return DrainBlocked(UnremovableReason.SYSTEM_POD, "it has no disruption budget")


def not_safe_to_evict(pod: Pod, _: DrainContext) -> Answer:
    return DrainBlocked(UnremovableReason.NOT_SAFE_TO_EVICT) if pod.marks.safe_to_evict is SafeToEvict.NO else None


def local_storage(pod: Pod, _: DrainContext) -> Answer:
    lost = pod.marks.local_volumes
    if not lost:
        return None
    return DrainBlocked(UnremovableReason.LOCAL_STORAGE, f"volume {lost[0]} is on the node")


def budget_spent(pod: Pod, context: DrainContext) -> Answer:
    if not context.budgets.spent(pod):
        return None
    return DrainBlocked(UnremovableReason.NOT_ENOUGH_PDB, f"{context.budgets.cost(pod)} allows none")


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainRule:
    """Rule about one kind of pods. Rules are applied in the order of RULES."""

    name: str
    check: Callable[[Pod, DrainContext], Answer]
    """Answer for a pod; None if the rule has none."""
    words: str
    """Row of the rule in docs/draining.md: pod, and answer."""
    switch: Callable[[RuleSwitches], bool] = _always_on


RULES: Sequence[DrainRule] = (
    DrainRule(name="MirrorPod", check=mirror_pod, words="mirror pod | leaves with its node"),
    DrainRule(name="Overdue", check=overdue_pod, words="should have been gone for 30 s | is skipped"),
    DrainRule(
        name="ControllerNotFound",
        check=controller_gone_or_small,
        words="controller is gone, or has fewer replicas than minReplicaCount | `ControllerNotFound`, `TooFewReplicas`",
        switch=lambda switches: switches.custom_controllers_stay,
    ),
    DrainRule(name="DaemonSet", check=daemon_pod, words="of a DaemonSet, or annotated as such | leaves with its node"),
    DrainRule(
        name="VirtualMachine",
        check=virtual_machine,
        words="runs a VM | is migrated; if the VM may not be migrated, is evicted where `evictVms` or "
        '`safe-to-evict: "true"` say so; else `VmNotMigratable`, `VmNotMigratedNow`',
    ),
    DrainRule(name="SafeToEvict", check=safe_to_evict, words='`safe-to-evict: "true"` | is evicted'),
    DrainRule(name="Finished", check=finished_pod, words="finished | is skipped"),
    DrainRule(
        name="OnCompletion", check=evict_on_completion, words="`safe-to-evict: on-completion` | the node waits for it"
    ),
    DrainRule(name="NotReplicated", check=no_controller, words="has no controller | `NotReplicated`"),
    DrainRule(
        name="CustomController",
        check=custom_controller,
        words="its controller is not one of Kubernetes' own | `NotReplicated`",
        switch=lambda switches: switches.custom_controllers_stay,
    ),
    DrainRule(
        name="SystemPod",
        check=system_pod,
        words="in kube-system without a disruption budget, younger than an hour | `SystemPod`",
        switch=lambda switches: switches.system_pods_stay,
    ),
    DrainRule(
        name="NotSafeToEvict",
        check=not_safe_to_evict,
        words='`safe-to-evict: "false"`, or `karpenter.sh/do-not-disrupt` | `NotSafeToEvict`',
    ),
    DrainRule(
        name="LocalStorage",
        check=local_storage,
        words="has data on the node (hostPath, emptyDir on disk) not named as safe to lose | `LocalStorage`",
        switch=lambda switches: switches.local_storage_stays,
    ),
    DrainRule(name="NotEnoughPdb", check=budget_spent, words="its disruption budget is spent | `NotEnoughPdb`"),
)


def drainability(pod: Pod, context: DrainContext) -> Drainability | DrainBlocked:
    """Apply the rules to a pod. It is evicted if no rule answers.

    A pod under two budgets stays where it would be evicted: the Eviction API always refuses it.
    """
    return _with_budgets(pod, _first(pod, context), context)


class DrainabilityCache:
    """Rule results for many pods. Pods alike in everything the rules read are evaluated once."""

    def __init__(self, context: DrainContext) -> None:
        self.context = context
        self._no_budgets = context.budgets.none
        self._known: dict[tuple[int, str, str, Phase], Answer] = {}

    def of(self, pod: Pod) -> Drainability | DrainBlocked:
        if pod.vm is not None or pod.key.namespace == SYSTEM:
            return drainability(pod, self.context)  # age and labels matter there, or the VM does
        owner = pod.owner
        # Marks are compared by identity: all of them live as long as the snapshot.
        alike = (id(pod.marks), "" if owner is None else owner.uid, "" if owner is None else owner.kind, pod.phase)
        try:
            answer = self._known[alike]
        except KeyError:
            answer = self._known[alike] = _first(pod, self.context)
        if answer is None and self._no_budgets:
            return Drainability.EVICT
        return _with_budgets(pod, answer, self.context)


def _first(pod: Pod, context: DrainContext) -> Answer:
    """Answer of the first rule that has one. Budgets come last, in `_with_budgets`."""
    for rule in RULES[:-1]:
        answer = rule.check(pod, context) if rule.switch(context.switches) else None
        if answer is not None:
            return answer
    return None


def _with_budgets(pod: Pod, answer: Answer, context: DrainContext) -> Drainability | DrainBlocked:
    if context.budgets.none and answer is None:
        return Drainability.EVICT
    if answer is None:
        answer = RULES[-1].check(pod, context)
    if answer is not None and answer is not Drainability.EVICT:
        return answer
    if len(asked := context.budgets.asked(pod)) > 1:
        return DrainBlocked(UnremovableReason.SEVERAL_PDBS, f"{asked[0]} and {asked[1]} both select it")
    return Drainability.EVICT
