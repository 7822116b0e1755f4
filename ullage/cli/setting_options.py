"""Options about draining that several verbs have."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ullage.errors import UserError

if TYPE_CHECKING:
    from ullage.control.draining.settings import DrainingSettings
    from ullage.decide.draining.inputs import DrainPolicy

Decorator = Callable[[Callable[..., None]], Callable[..., None]]

_SHARE = click.FloatRange(0, 1)


def _switch(name: str, what: str) -> Callable[[Any], Any]:
    return click.option(f"--{name}/--no-{name}", default=True, show_default=True, help=what)


def _all_of(*options: Callable[[Any], Any]) -> Decorator:
    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorated


def threshold_options(whose: str = "Nodes") -> Decorator:
    """Options for the utilization above which a node stays."""
    return _all_of(
        click.option(
            "--utilization-threshold",
            type=_SHARE,
            default=0.5,
            show_default=True,
            help=f"{whose} with more of their CPU or memory requested stay.",
        ),
        click.option(
            "--gpu-utilization-threshold",
            type=_SHARE,
            default=0.5,
            show_default=True,
            help="The same of nodes with GPUs, by their GPUs alone.",
        ),
    )


policy_options = _all_of(
    click.option("--ignore-daemonsets-utilization", is_flag=True, help="Do not count what DaemonSets request."),
    click.option("--ignore-mirror-pods-utilization", is_flag=True, help="Do not count what mirror pods request."),
    _switch("skip-nodes-with-system-pods", "Pods of kube-system without a disruption budget keep their node."),
    _switch("skip-nodes-with-local-storage", "Pods with data on their node keep it."),
    _switch(
        "skip-nodes-with-custom-controller-pods", "Pods of controllers that are not Kubernetes' own keep their node."
    ),
    click.option(
        "--min-replica-count",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="Pods of ReplicaSets with fewer replicas keep their node.",
    ),
    click.option(
        "--system-pod-timeout",
        type=click.FloatRange(min=0),
        default=3600.0,
        show_default=True,
        metavar="SECONDS",
        help="Age at which a pod of kube-system may move after all.",
    ),
    click.option(
        "--unready/--no-unready", default=True, show_default=True, help="Nodes that are not ready may go, too."
    ),
    click.option("--in-turn", is_flag=True, help="Let a node go whose pods its disruption budget lets go one by one."),
)


def is_given(option: str) -> bool:
    """True if the user gave the option; False if it has its default."""
    source = click.get_current_context().get_parameter_source(option)
    return source not in (None, ParameterSource.DEFAULT)


def read_policy(options: Mapping[str, Any]) -> "DrainPolicy":
    """Read the drain policy from the options."""
    from ullage.decide.draining.inputs import DrainPolicy, RuleSwitches

    return DrainPolicy(
        used_milli=round(options["utilization_threshold"] * 1000),
        gpu_used_milli=round(options["gpu_utilization_threshold"] * 1000),
        count_daemons=not options["ignore_daemonsets_utilization"],
        count_mirrors=not options["ignore_mirror_pods_utilization"],
        unready_go=options["unready"],
        in_turn=options["in_turn"],
        rules=RuleSwitches(
            system_pods_stay=options["skip_nodes_with_system_pods"],
            local_storage_stays=options["skip_nodes_with_local_storage"],
            custom_controllers_stay=options["skip_nodes_with_custom_controller_pods"],
            min_replicas=options["min_replica_count"],
            system_pod_grace=options["system_pod_timeout"],
        ),
    )


def _duration(name: str, default: str, what: str) -> Callable[[Any], Any]:
    return click.option(name, default=default, show_default=True, metavar="DURATION", help=what)


def _labels(whose: str, what: str) -> Callable[[Any], Any]:
    text = f"{what} May be repeated: all of them."
    return click.option(f"--drain-{whose}-label", f"{whose}_labels", multiple=True, metavar="KEY=VALUE", help=text)


def _read_labels(texts: Iterable[str], option: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise UserError(f"{option}: {text!r} is not KEY=VALUE, such as nvidia.com/gpu.product=H100")
        found[key] = value
    return found


def _least(name: str, what: str, default: int = 0) -> Callable[[Any], Any]:
    return click.option(name, type=click.IntRange(min=0), default=default, show_default=True, help=what)


draining_options = _all_of(
    click.option(
        "--drain-unmanaged",
        is_flag=True,
        help="Drain nodes of no NodeProvisioner, too. They are left empty and cordoned: nobody here can delete them.",
    ),
    threshold_options("Nodes of no NodeProvisioner"),
    _duration("--scale-down-unneeded-time", "10m", "How long nodes of no NodeProvisioner must have been unneeded."),
    _duration("--scale-down-unready-time", "20m", "The same of those that are not ready."),
    click.option(
        "--max-scale-down-parallelism",
        type=click.IntRange(min=1),
        help="Nodes being drained and removed at once, of all pools together. Default: 100.",
    ),
    click.option(
        "--max-drain-parallelism",
        type=click.IntRange(min=0),
        help="Of them, nodes with pods to evict; 1 drains one after another. Default: 50, or as many as may be.",
    ),
    click.option(
        "--max-empty-bulk-delete",
        type=click.IntRange(min=1),
        help="Deprecated name of --max-scale-down-parallelism.",
    ),
    click.option(
        "--min-nodes-total",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="Nodes the cluster keeps, whatever could be drained.",
    ),
    _labels("candidate", "Drain only nodes with this label."),
    _labels("destination", "Plan to move pods only to nodes with this label."),
    _least("--min-cores-total", "Cores the nodes of the cluster keep offering in all."),
    _least("--min-memory-total", "The same of memory, in GiB."),
    _least("--min-gpus-total", "The same of GPUs."),
    _duration("--node-delete-delay-after-taint", "5s", "From tainting a node to looking once more who is on it."),
    _duration("--max-pod-eviction-time", "2m", "How long a pod is asked to go that its budget does not let go yet."),
    _duration("--max-graceful-termination", "10m", "Pods that want longer to end are given so long."),
    _duration("--scale-down-delay-after-failure", "3m", "How long a node is left alone that could not be removed."),
    _duration("--scan-interval", "5s", "Least time between two plans. Nothing is planned without news."),
    _duration("--scale-down-simulation-timeout", "10s", "How long one plan may look for nodes to remove."),
    _least("--min-nodes-evaluated", "Nodes every plan looks at, however long that takes.", default=10),
    policy_options,
)


def read_draining(options: Mapping[str, Any], chosen: "DrainingSettings | None" = None) -> "DrainingSettings":
    """Read the draining options and a settings file's section; options override the file. Raises UserError."""
    if chosen is None:
        return _read_draining(options)
    said = {name: value for name, value in _as_options(chosen).items() if not is_given(name)}
    at_once = options["max_scale_down_parallelism"] or options["max_empty_bulk_delete"]
    if at_once is not None:
        said.pop("max_scale_down_parallelism", None)
        said["max_drain_parallelism"] = min(chosen.most_drains, at_once)
        said = {name: value for name, value in said.items() if not is_given(name)}
    found = _read_draining({**options, **said})
    policy = replace(found.policy, recheck=chosen.policy.recheck, evictions_kept=chosen.policy.evictions_kept)
    return replace(found, policy=policy, node_filters=chosen.node_filters + found.node_filters)


def _as_options(settings: "DrainingSettings") -> dict[str, Any]:
    """Return the options that would give these settings."""
    from ullage.model.resources import GIB, GPU, MILLI

    policy, rules, pace = settings.policy, settings.policy.rules, settings.pace
    return {
        "drain_unmanaged": settings.unmanaged,
        "utilization_threshold": policy.used_milli / 1000,
        "gpu_utilization_threshold": policy.gpu_used_milli / 1000,
        "scale_down_unneeded_time": settings.unneeded,
        "scale_down_unready_time": settings.unready,
        "max_scale_down_parallelism": settings.most_at_once,
        "max_drain_parallelism": settings.most_drains,
        "min_nodes_total": settings.least_nodes,
        "min_cores_total": settings.least_resources.get("cpu", 0) // MILLI,
        "min_memory_total": settings.least_resources.get("memory", 0) // (GIB * MILLI),
        "min_gpus_total": settings.least_resources.get(GPU, 0) // MILLI,
        "min_nodes_evaluated": settings.least_tried,
        "node_delete_delay_after_taint": pace.after_taint,
        "max_pod_eviction_time": pace.evictions.deadline,
        "max_graceful_termination": pace.evictions.most_grace,
        "scale_down_delay_after_failure": settings.after_failure,
        "scan_interval": settings.pause,
        "scale_down_simulation_timeout": settings.plan_seconds,
        "ignore_daemonsets_utilization": not policy.count_daemons,
        "ignore_mirror_pods_utilization": not policy.count_mirrors,
        "unready": policy.unready_go,
        "in_turn": policy.in_turn,
        "skip_nodes_with_system_pods": rules.system_pods_stay,
        "skip_nodes_with_local_storage": rules.local_storage_stays,
        "skip_nodes_with_custom_controller_pods": rules.custom_controllers_stay,
        "min_replica_count": rules.min_replicas,
        "system_pod_timeout": rules.system_pod_grace,
    }


def _read_draining(options: Mapping[str, Any]) -> "DrainingSettings":
    from ullage.act.node_removal import DrainPace
    from ullage.act.pod_eviction import EvictionPace
    from ullage.control.configured import labelled, least_resources
    from ullage.control.draining.settings import DrainingSettings

    at_once, drains = read_limits(options)
    evictions = EvictionPace(
        deadline=_seconds(options, "max_pod_eviction_time"),
        most_grace=_seconds(options, "max_graceful_termination"),
    )
    return DrainingSettings(
        unmanaged=options["drain_unmanaged"],
        unneeded=_seconds(options, "scale_down_unneeded_time"),
        unready=_seconds(options, "scale_down_unready_time"),
        most_at_once=at_once,
        most_drains=drains,
        node_filters=labelled(
            candidates=_read_labels(options["candidate_labels"], "--drain-candidate-label"),
            destinations=_read_labels(options["destination_labels"], "--drain-destination-label"),
        ),
        least_nodes=options["min_nodes_total"],
        least_resources=least_resources(
            cores=options["min_cores_total"],
            memory_gib=options["min_memory_total"],
            gpus=options["min_gpus_total"],
        ),
        least_tried=options["min_nodes_evaluated"],
        lease_namespace=options["namespace"],
        policy=read_policy(options),
        pace=DrainPace(after_taint=_seconds(options, "node_delete_delay_after_taint"), evictions=evictions),
        after_failure=_seconds(options, "scale_down_delay_after_failure"),
        pause=_seconds(options, "scan_interval"),
        plan_seconds=_seconds(options, "scale_down_simulation_timeout"),
    )


def read_limits(options: Mapping[str, Any]) -> tuple[int, int]:
    """Nodes being removed at once, and drains among them. Raises UserError."""
    from ullage.control.draining.settings import DrainingSettings

    usual = DrainingSettings()
    at_once, old = options["max_scale_down_parallelism"], options["max_empty_bulk_delete"]
    if old is not None:
        if at_once is not None:
            raise UserError(
                "--max-empty-bulk-delete: is the old name of --max-scale-down-parallelism; give only the latter"
            )
        click.echo("warning: --max-empty-bulk-delete is deprecated; use --max-scale-down-parallelism", err=True)
        at_once = old
    at_once = usual.most_at_once if at_once is None else at_once
    drains = options["max_drain_parallelism"]
    if drains is None:
        drains = min(usual.most_drains, at_once)
    if drains > at_once:
        raise UserError(
            f"--max-drain-parallelism: {drains} must not be more than --max-scale-down-parallelism ({at_once})"
        )
    return at_once, drains


def _seconds(options: Mapping[str, Any], name: str) -> float:
    from ullage.kube.read.provisioner import read_seconds

    said = options[name]
    if isinstance(said, float):
        return said
    try:
        return read_seconds(said)
    except ValueError as error:
        raise UserError(f"--{name.replace('_', '-')}: {error}") from error
