"""Approvals and requests of VM pods as they count: by writes under way, agents that spoke, and silent ones."""

from ullage.model.fact_event import ObjectKey
from ullage.model.vm import NOTHING, RestartRule, Vm, VmAccount, VmAmounts, VmPod
from ullage.state.forking import Forkable
from ullage.state.vm_maxima import VmMaxima


class VmApprovals(Forkable):
    """Judges what is written on pods, and makes their accounts of it."""

    def __init__(self, restart: RestartRule) -> None:
        self.restart = restart
        self.maxima = VmMaxima()
        self._assumed: dict[ObjectKey, VmAmounts] = {}
        self._reported: set[str] = set()
        self._silent: set[str] = set()

    def assume(self, key: ObjectKey, approved: VmAmounts) -> None:
        self._assumed[key] = approved

    def forget_assumed(self, key: ObjectKey) -> None:
        self._assumed.pop(key, None)

    def is_assumed(self, key: ObjectKey) -> bool:
        return key in self._assumed

    def spoke(self, pod: VmPod) -> None:
        """Note that the pod's agent spoke to this process."""
        self._reported.add(pod.uid)
        self._silent.discard(pod.uid)

    def silent(self, pod: VmPod) -> None:
        """Note that the pod's agent has been silent for long."""
        self._silent.add(pod.uid)

    def forget(self, key: ObjectKey, uid: str) -> None:
        """Forget a pod that is gone."""
        self._assumed.pop(key, None)
        self._reported.discard(uid)
        self._silent.discard(uid)

    def account(self, pod: VmPod, vm: Vm | None, *, migrating: bool) -> VmAccount:
        """The pod's part of its node's ledger."""
        assumed = self._assumed.get(pod.key, NOTHING)
        if vm is None:
            reserved = (pod.approved or pod.requests).at_least(assumed)
            return VmAccount(reserved=reserved, migrating=migrating, known=pod.approved is not None)
        if not vm.scaling and pod.requested is None:
            return VmAccount(reserved=vm.use.at_least(assumed), migrating=migrating)
        # An agent that was told a permit may still apply it after autoscaling was switched off.
        approved = self.maxima.admitted(vm, pod.approved)
        known = approved is not None and self._believed(pod)
        reserved = vm.use.at_least(assumed).at_least(approved or NOTHING)
        buffer = NOTHING
        if not known:
            reserved = reserved.at_least(self.maxima.largest(vm))
            buffer = reserved.above(vm.use.at_least(assumed))
        wanted = pod.requested if pod.requested is not None and pod.uid not in self._silent else NOTHING
        return VmAccount(
            reserved=reserved,
            buffer=buffer,
            capacity_pressure=wanted.at_most(vm.maximum).above(reserved),
            migrating=migrating,
            known=known,
        )

    def _believed(self, pod: VmPod) -> bool:
        return self.restart is RestartRule.TRUST_APPROVED or pod.uid in self._reported
