"""Settings file as the settings of each loop, until every loop takes its section directly.

Live programs and the simulator share this, so that they cannot differ.
"""

from collections.abc import Mapping

from ullage.act.node_removal import DrainPace
from ullage.act.pod_eviction import EvictionPace
from ullage.config.settings import DrainingSettings as DrainingSection
from ullage.config.settings import Settings
from ullage.control.draining.settings import DrainingSettings
from ullage.control.provisioning.loop import ProvisioningSettings
from ullage.control.provisioning.wiring import ControllerSettings
from ullage.control.scheduling.loop import BindPipeline
from ullage.control.scheduling.wiring import SchedulerSettings
from ullage.decide.draining.inputs import DrainPolicy, LabelledNodes, NodeListFilter, RuleSwitches
from ullage.errors import UserError
from ullage.model.resources import GIB, GPU, MILLI
from ullage.model.scoring import LIVE_POLICIES
from ullage.state.queue import QueueBackoff


def scheduler_settings(settings: Settings) -> SchedulerSettings:
    """Settings of `ullage scheduler`."""
    chosen = settings.scheduling
    return SchedulerSettings(
        profiles=chosen.policies(),
        lease_namespace=chosen.lease_namespace,
        pipeline=BindPipeline(
            placements=chosen.max_bind_parallelism,
            refusals=chosen.max_condition_parallelism,
            hide_gpu_pods=settings.karpenter.enabled,
        ),
        sweep=chosen.release_leases,
        pace=QueueBackoff(chosen.initial_backoff, chosen.max_backoff, chosen.max_unschedulable_duration),
    )


def provisioning_settings(settings: Settings) -> ControllerSettings:
    """Settings of `ullage controller` for pools."""
    chosen = settings.provisioning
    return ControllerSettings(
        lease_namespace=settings.scheduling.lease_namespace,
        provisioning=ProvisioningSettings(
            budget=chosen.budget,
            schedulers=settings.scheduler_names,
            pause=chosen.plan_interval,
            at_once=chosen.max_taint_parallelism,
            protected_for=chosen.protected_recheck_timeout,
        ),
        providers=chosen.providers,
    )


def draining_settings(settings: Settings) -> DrainingSettings:
    """Settings of `ullage controller` for draining."""
    chosen = settings.draining
    evictions = EvictionPace(deadline=chosen.max_pod_eviction_time, most_grace=chosen.max_graceful_termination)
    return DrainingSettings(
        unmanaged=chosen.drain_unmanaged,
        lease_namespace=settings.scheduling.lease_namespace,
        unneeded=chosen.scale_down_unneeded_time,
        unready=chosen.scale_down_unready_time,
        most_at_once=chosen.max_scale_down_parallelism,
        most_drains=chosen.drains_at_once,
        node_filters=labelled(candidates=chosen.candidate_labels, destinations=chosen.destination_labels),
        least_nodes=chosen.min_nodes_total,
        least_resources=least_resources(
            cores=chosen.min_cores_total, memory_gib=chosen.min_memory_total, gpus=chosen.min_gpus_total
        ),
        least_tried=chosen.min_nodes_evaluated,
        policy=drain_policy(chosen),
        pace=DrainPace(
            after_taint=chosen.node_delete_delay_after_taint,
            delete_deadline=chosen.max_delete_time,
            evictions=evictions,
        ),
        after_failure=chosen.scale_down_delay_after_failure,
        pause=chosen.scan_interval,
        plan_seconds=chosen.simulation_timeout,
        most_marks=chosen.max_soft_taints_per_loop,
        at_once=chosen.max_node_write_parallelism,
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


def drain_policy(chosen: DrainingSection) -> DrainPolicy:
    """Conditions for removing a node."""
    return DrainPolicy(
        used_milli=round(chosen.utilization_threshold * 1000),
        gpu_used_milli=round(chosen.gpu_utilization_threshold * 1000),
        count_daemons=not chosen.ignore_daemonsets_utilization,
        count_mirrors=not chosen.ignore_mirror_pods_utilization,
        unready_go=chosen.scale_down_unready,
        in_turn=chosen.allow_serial_eviction,
        recheck=chosen.unremovable_recheck_timeout,
        evictions_kept=chosen.recent_eviction_window,
        rules=RuleSwitches(
            system_pods_stay=chosen.skip_nodes_with_system_pods,
            local_storage_stays=chosen.skip_nodes_with_local_storage,
            custom_controllers_stay=chosen.skip_nodes_with_custom_controller_pods,
            min_replicas=chosen.min_replica_count,
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
