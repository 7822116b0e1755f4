"""VmAgent: informers of this node's VM pods and of VirtualMachines, and one runner for each VM that runs here."""

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from ullage.clock import Clock
from ullage.config.settings import Settings
from ullage.config.vm_agent import VmAgentSettings
from ullage.decide.vm_agent.core import AgentTimings
from ullage.decide.vm_agent.goal import ScalingRules
from ullage.kube.client.api import KubeApi, ListSelector
from ullage.kube.client.resource import Resource
from ullage.kube.client.resources import PODS, VIRTUAL_MACHINES
from ullage.kube.objects.vm import KubeVmPod
from ullage.model.fact_event import FactEvent, ObjectKey, Synced
from ullage.model.units import Seconds
from ullage.model.vm import SCALING_ENABLED, VM_NAME, VmAmounts
from ullage.observe.events import EventMessage
from ullage.observe.probes import HealthChecks
from ullage.observe.vm_agent_metrics import VmAgentMetrics
from ullage.vm_agent.client import PermitClient
from ullage.vm_agent.executor import AgentContacts, ScalingPolicy, VmRunner, log
from ullage.vm_agent.facts import GuestPod, GuestVm, read_guest_pod, read_guest_vm
from ullage.vm_agent.metrics_source import MetricsEndpoint, MetricsSource
from ullage.watch.informer import Informer, InformerSpec, run_all, wait_all_synced

T = TypeVar("T")
F = TypeVar("F")

VM_PODS: Resource[KubeVmPod] = replace(PODS, reads_as=KubeVmPod)  # type: ignore[assignment]
STATES = ("ok", "short", "moving", "blind")
_RESTART_SECONDS = (5.0, 10.0)
_READINGS_KEPT = 4
"""Readings that may be missed before the last metrics count as missing."""
_LONGEST_SILENCE = 60.0
"""Seconds without an answer of the scheduler after which the agent is not ready."""


@dataclass(frozen=True, slots=True)
class AgentOutside:
    """Programs outside the agent."""

    api: KubeApi
    permits: PermitClient
    metrics_source: MetricsSource


class VmAgent:
    """The agent of one node. `run` until cancelled."""

    def __init__(
        self,
        node: str,
        outside: AgentOutside,
        policy: ScalingPolicy,
        clock: Clock,
        metrics: VmAgentMetrics,
        *,
        seed: int = 0,
    ) -> None:
        self._node = node
        self._policy = policy
        self._clock = clock
        self._rng = random.Random(seed)
        self.metrics = metrics
        self._contacts = AgentContacts(outside.api, outside.permits, outside.metrics_source, metrics, clock)
        chosen = ListSelector(labels=VM_NAME, fields=f"spec.nodeName={node}")
        self._pods = self._informer(VM_PODS, read_guest_pod, chosen, self._pod_changed)
        enabled = ListSelector(labels=f"{SCALING_ENABLED}=true")
        self._vms = self._informer(VIRTUAL_MACHINES, read_guest_vm, enabled, self._vm_changed)
        self._here: set[ObjectKey] = set()
        """VMs with a pod on this node."""
        self._runners: dict[ObjectKey, tuple[VmRunner, asyncio.Task[None]]] = {}
        self._group: asyncio.TaskGroup | None = None

    @property
    def runners(self) -> Mapping[ObjectKey, VmRunner]:
        """Runners by pod."""
        return {key: runner for key, (runner, _) in self._runners.items()}

    @property
    def ready(self) -> bool:
        """True once all VMs of the node are known."""
        return self._group is not None

    @property
    def checks(self) -> HealthChecks:
        """Alive always: a runner that fails begins anew. Ready while the scheduler answers."""
        return HealthChecks(ready={"objects": self._unsynced, "scheduler": self._unanswered})

    def show(self) -> None:
        """Bring the gauges up to date."""
        states = [runner.state for runner in self.runners.values()]
        for state in STATES:
            self.metrics.vms.labels(state).set(states.count(state))

    def configure(self, settings: Settings) -> None:
        """Take over changed settings. Requests and resizes that are under way end as they began."""
        changed = settings.vmagent
        self._policy = policy = scaling_policy(changed)
        self._contacts.permits.timeout = changed.request_timeout
        self._contacts.metrics_source.configure(metrics_endpoint(changed))
        for runner in self.runners.values():
            runner.configure(policy)

    def announce(self, message: EventMessage) -> None:
        """Record no Event: an agent has no right to. The log says it."""

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(run_all(self._pods, self._vms), name="VMs and their pods")
                await wait_all_synced(self._pods, self._vms)
                self._group = group
                self._reconcile()
        finally:
            self._group = None

    def _informer(
        self,
        resource: Resource[T],
        read: Callable[[T], F],
        selection: ListSelector,
        deliver: Callable[[FactEvent[F]], None],
    ) -> Informer[T, F]:
        spec = InformerSpec(resource, read, selection=selection, at_hand=True)
        return Informer(self._contacts.api, spec, deliver, rng=self._rng, clock=self._clock)

    def _pod_changed(self, _: FactEvent[GuestPod | None]) -> None:
        self._here = {pod.vm for pod in self._pods.facts.values() if pod is not None}
        self._reconcile()

    def _vm_changed(self, event: FactEvent[GuestVm]) -> None:
        """The kind has no selector by node: VMs of other nodes arrive here, too."""
        if not isinstance(event, Synced) and event.key in self._here:
            self._reconcile()

    def _reconcile(self) -> None:
        """Start and end runners, so that there is one for each VM that runs in a pod of this node."""
        if self._group is None:
            return
        wanted: dict[ObjectKey, tuple[GuestPod, GuestVm]] = {}
        for key, pod in self._pods.facts.items():
            guest = self._vms.facts.get(pod.vm) if pod is not None else None
            if pod is not None and guest is not None and _is_home(pod, guest):
                wanted[key] = (pod, guest)
        for key, (runner, task) in list(self._runners.items()):
            found = wanted.get(key)
            if found is None or not runner.is_for(*found):
                del self._runners[key]
                task.cancel()
        for key, (pod, guest) in wanted.items():
            if key in self._runners:
                self._runners[key][0].observe(guest)
            else:
                self._start(self._group, pod, guest)

    def _start(self, group: asyncio.TaskGroup, pod: GuestPod, guest: GuestVm) -> None:
        runner = VmRunner(pod, guest, self._contacts, self._policy)
        task = group.create_task(self._guarded(runner), name=f"VM {pod.key}")
        self._runners[pod.key] = (runner, task)
        log.info("VM taken over", vm=str(pod.vm), pod=pod.key.name)

    async def _guarded(self, runner: VmRunner) -> None:
        """Run one VM. A bug ends neither the agent nor, for longer than a pause, the work on this VM."""
        try:
            await runner.run()
        except Exception:  # noqa: BLE001 - one VM must not end the others
            log.exception("VM runner failed", pod=str(runner.pod.key))
            self.metrics.restarts.inc()
            await asyncio.sleep(self._rng.uniform(*_RESTART_SECONDS))
        current = self._runners.get(runner.pod.key)
        if current is not None and current[0] is runner:
            del self._runners[runner.pod.key]
            self._reconcile()

    def _unsynced(self) -> str:
        return "" if self.ready else "pods and VirtualMachines have not been listed yet"

    def _unanswered(self) -> str:
        since = self._contacts.failing_since
        silent = 0.0 if since is None else self._clock.steady() - since
        return f"the scheduler has not answered for {silent:.0f} s" if silent >= _LONGEST_SILENCE else ""


def _is_home(pod: GuestPod, guest: GuestVm) -> bool:
    """True if the VM runs in this pod, and the pod has an address."""
    return pod.runs and bool(pod.address) and guest.pod in ("", pod.key.name)


def scaling_policy(settings: VmAgentSettings) -> ScalingPolicy:
    """Scaling policy by the settings."""
    return ScalingPolicy(
        unit=VmAmounts(settings.cpu_unit, settings.memory_unit),
        rules=ScalingRules(
            load_average_fraction_target=settings.load_average_fraction_target,
            memory_usage_fraction_target=settings.memory_usage_fraction_target,
            stable_zone=settings.stable_zone,
            mixed_zone=settings.mixed_zone,
            max_step=settings.max_step,
        ),
        timings=AgentTimings(
            tick=Seconds(settings.request_every),
            after_denial=Seconds(settings.after_denial),
            after_failed_request=Seconds(settings.after_failed_request),
            after_failed_resize=Seconds(settings.after_failed_resize),
            metrics_expire=Seconds(_READINGS_KEPT * settings.metrics_every),
        ),
        unplug_seconds=settings.unplug_timeout,
    )


def metrics_endpoint(settings: VmAgentSettings) -> MetricsEndpoint:
    """Place and pace of metrics by the settings."""
    return MetricsEndpoint(
        port=settings.metrics_port,
        path=settings.metrics_path,
        prefix=settings.metrics_prefix,
        every=settings.metrics_every,
        timeout=settings.metrics_timeout,
    )
