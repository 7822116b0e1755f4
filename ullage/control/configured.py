"""Settings file as the settings of each loop. Live programs and the simulator share this, so that they cannot
differ."""

from collections.abc import Mapping

from ullage.act.node_removal import DrainPace
from ullage.act.pod_eviction import EvictionPace
from ullage.config.settings import LIVE_POLICIES, Settings
from ullage.control.draining.settings import DrainingSettings
from ullage.control.provisioning.loop import ProvisioningSettings
from ullage.control.provisioning.wiring import ControllerSettings
from ullage.control.scheduling.loop import BindPipeline
from ullage.control.scheduling.wiring import SchedulerSettings
from ullage.decide.draining.inputs import DrainPolicy, LabelledNodes, NodeListFilter, RuleSwitches
from ullage.errors import UserError
from ullage.model.provisioner import FleetBudget
from ullage.model.resources import GIB, GPU, MILLI
from ullage.state.queue import QueueBackoff


def scheduler_settings(settings: Settings) -> SchedulerSettings:
    """Settings of `ullage scheduler`."""
    chosen = settings.scheduling
    return SchedulerSettings(
        profiles=chosen.policies(),
        lease_namespace=chosen.lease_namespace,
        pipeline=BindPipeline(
            placements=chosen.parallel_placements,
            refusals=chosen.parallel_refusals,
            hide_gpu_pods=settings.karpenter.enabled,
        ),
        sweep=chosen.sweep_leases,
        pace=QueueBackoff(chosen.first_backoff, chosen.longest_backoff, chosen.longest_sleep),
    )


def provisioning_settings(settings: Settings) -> ControllerSettings:
    """Settings of `ullage controller` for pools."""
    chosen = settings.provisioning
    return ControllerSettings(
        lease_namespace=settings.scheduling.lease_namespace,
        provisioning=ProvisioningSettings(
            budget=FleetBudget(gpus=chosen.max_gpus, price=chosen.max_price_per_hour),
            schedulers=tuple(settings.scheduling.policies()),
            pause=chosen.pause,
            at_once=chosen.parallel_actions,
            protected_for=chosen.protected_for,
        ),
        providers=chosen.providers,
    )


def draining_settings(settings: Settings) -> DrainingSettings:
    """Settings of `ullage controller` for draining."""
    chosen = settings.draining
    evictions = EvictionPace(deadline=chosen.max_eviction_time, most_grace=chosen.max_graceful_termination)
    return DrainingSettings(
        unmanaged=chosen.drain_unmanaged,
        lease_namespace=settings.scheduling.lease_namespace,
        unneeded=chosen.unneeded_time,
        unready=chosen.unready_time,
        most_at_once=chosen.max_scale_down_parallelism,
        most_drains=chosen.max_drain_parallelism,
        node_filters=labelled(candidates=chosen.candidate_labels, destinations=chosen.destination_labels),
        least_nodes=chosen.min_nodes_total,
        least_resources=least_resources(
            cores=chosen.min_cores_total, memory_gib=chosen.min_memory_total, gpus=chosen.min_gpus_total
        ),
        least_tried=chosen.min_nodes_evaluated,
        policy=_drain_policy(settings),
        pace=DrainPace(after_taint=chosen.delay_after_taint, evictions=evictions),
        after_failure=chosen.delay_after_failure,
        pause=chosen.scan_interval,
        plan_seconds=chosen.plan_time,
    )


def labelled(*, candidates: Mapping[str, str], destinations: Mapping[str, str]) -> tuple[NodeListFilter, ...]:
    """A filter by labels, where any are said."""
    if not candidates and not destinations:
        return ()
    return (LabelledNodes(candidates=dict(candidates), destinations=dict(destinations)),)


def least_resources(*, cores: int, memory_gib: int, gpus: int) -> dict[str, int]:
    """Minimum resources of a cluster, in thousandths by resource. Zeros are left out."""
    said = {"cpu": cores * MILLI, "memory": memory_gib * GIB * MILLI, GPU: gpus * MILLI}
    return {name: amount for name, amount in said.items() if amount}


def _drain_policy(settings: Settings) -> DrainPolicy:
    chosen = settings.draining
    return DrainPolicy(
        used_milli=round(chosen.utilization_threshold * 1000),
        gpu_used_milli=round(chosen.gpu_utilization_threshold * 1000),
        count_daemons=chosen.count_daemon_sets,
        count_mirrors=chosen.count_mirror_pods,
        unready_go=chosen.unready_nodes_go,
        in_turn=chosen.in_turn,
        recheck=chosen.recheck,
        evictions_kept=chosen.evictions_kept,
        rules=RuleSwitches(
            system_pods_stay=chosen.system_pods_stay,
            local_storage_stays=chosen.local_storage_stays,
            custom_controllers_stay=chosen.custom_controllers_stay,
            min_replicas=chosen.min_replicas,
            system_pod_grace=chosen.system_pod_timeout,
        ),
    )


def refuse_chance(settings: Settings, source: str) -> None:
    """Live programs do not place by chance. Raises UserError."""
    for scheduler, policy in settings.scheduling.policies().items():
        if policy not in LIVE_POLICIES:
            raise UserError(
                f"{source}: scheduling: {policy} (of {scheduler}) is for simulations; allowed: "
                f"{', '.join(LIVE_POLICIES)}"
            )
