"""Reports plans as Events, each once: for pending pods, and for pools with silent agents.

Reasons and sentences about pods are Cluster Autoscaler's: people and tools know them.
"""

from collections.abc import Mapping, Sequence

from ullage.control.provisioning.reporter import EventSink, provisioner_subject
from ullage.decide.provisioning.node_offers import ScaleUpBlocked
from ullage.decide.provisioning.planner import FleetPlan, PoolPlan
from ullage.decide.provisioning.silent_agents import silence_of
from ullage.decide.provisioning.vm_demand import moved_from
from ullage.model.fact_event import ObjectKey
from ullage.model.outcomes import NodesLaunched, PoolOutcome
from ullage.model.pod import Pod
from ullage.model.provisioner import Provisioner
from ullage.observe.events import EventMessage, EventReason, ObjectReference

_MOST_POOLS = 8


class PlanReporter:
    """Reporter of plans. `pods` is the live mapping of the snapshot."""

    def __init__(self, events: EventSink, pods: Mapping[ObjectKey, Pod]) -> None:
        self._events = events
        self._pods = pods
        self._refused: dict[ObjectKey, tuple[str, str]] = {}
        """Uid of a pod, and the last note written about it."""
        self._silence: dict[str, str] = {}
        self._plan: FleetPlan | None = None

    def planned(self, plan: FleetPlan) -> None:
        """Report the differences from the last plan."""
        self._plan = plan
        self._report_silence(plan)
        self._refused = {key: told for key, told in self._refused.items() if key in self._pods}
        for supposed, refusals in plan.demand.unmet.items():
            key = moved_from(supposed)
            pod = self._pods.get(key)
            if pod is None:
                continue
            said = [f"{name}: {_word(plan.pools[name], why)}" for name, why in list(refusals.items())[:_MOST_POOLS]]
            note = f"pod didn't trigger scale-up: {', '.join(said) or 'there is no NodeProvisioner'}"
            if self._refused.get(key) != (pod.uid, note):
                self._refused[key] = pod.uid, note
                self._emit_for_pod(pod, EventReason.NOT_TRIGGER_SCALE_UP, note)

    def stepped(self, provisioner: Provisioner, outcomes: Sequence[PoolOutcome]) -> None:
        """Report purchases to the pods they are for."""
        bought = sum(len(one.instances) for one in outcomes if isinstance(one, NodesLaunched))
        plan = self._plan
        if not bought or plan is None or provisioner.name not in plan.pools:
            return
        before, most = plan.pools[provisioner.name].evaluation.current, provisioner.thresholds.max_size
        note = f"pod triggered scale-up: [{{{provisioner.name} {before}->{before + bought} (max: {most})}}]"
        for key, name in plan.demand.chosen.items():
            pod = self._pods.get(moved_from(key))
            if name == provisioner.name and pod is not None:
                self._emit_for_pod(pod, EventReason.TRIGGERED_SCALE_UP, note)

    def _report_silence(self, plan: FleetPlan) -> None:
        said = {name: silence_of(pool.nodes) for name, pool in plan.pools.items()}
        for name, sentence in said.items():
            if sentence and sentence != self._silence.get(name):
                about = provisioner_subject(plan.pools[name].provisioner)
                self._events.record(EventMessage(about, EventReason.AGENTS_SILENT, sentence))
        self._silence = said

    def _emit_for_pod(self, pod: Pod, reason: EventReason, note: str) -> None:
        self._events.record(EventMessage(ObjectReference("Pod", pod.key, pod.uid), reason, note))


def _word(pool: PoolPlan, why: object) -> str:
    """Reason of a refusal in a word, with the failure of a back-off."""
    back_off = pool.provisioner.back_off
    if why is ScaleUpBlocked.BACKED_OFF and back_off is not None:
        return f"{ScaleUpBlocked.BACKED_OFF.value} ({back_off.failure.value})"
    return str(getattr(why, "value", why))
