"""Descriptions of a run for its report: workload, fleet, and settings that differ from their defaults. Pure."""

import hashlib
from collections import Counter
from typing import Any

import msgspec

from ullage.config.docs import as_plain
from ullage.config.settings import Settings
from ullage.sim.experiment.run_spec import RunSpec, world_spec
from ullage.sim.report.run_sheet import LEFT_OUT
from ullage.sim.workload.job import TraceJob, Workload

_HOUR = 3600.0
_DIGEST = 12


def workload_summary(workload: Workload) -> dict[str, Any]:
    """Name, size and digest of a workload. Equal digests are equal jobs."""
    jobs = workload.jobs
    found: dict[str, Any] = {"name": workload.name} if workload.name else {}
    found |= {
        "jobs": len(jobs),
        "pods": workload.pods,
        "GPU hours": round(sum(job.pods * _gpus(job) * (job.seconds or 0.0) for job in jobs) / _HOUR, 1),
        "arrives in, hours": round(jobs[-1].at / _HOUR, 2) if jobs else 0,
        "digest": hashlib.sha256(msgspec.json.encode(jobs)).hexdigest()[:_DIGEST],
    }
    if workload.skipped:
        found["rows left out"] = len(workload.skipped)
    if workload.impossible:
        found[LEFT_OUT] = workload.impossible_pods
        found["why they can never run"] = " | ".join(workload.impossible)
    return found


def fleet_summary(recipe: RunSpec) -> dict[str, Any]:
    """Nodes, GPUs by model, pools, and where prices are from."""
    fleet, objects = recipe.fleet, [*recipe.fleet.objects, *recipe.restored]
    models = Counter[str]()
    for node in fleet.nodes:
        if node.template.gpus.count:
            models[node.template.gpus.model] += node.template.gpus.count
    unpriced = [
        template.gpus.model
        for template in (*(node.template for node in fleet.nodes), *fleet.templates)
        if template.gpus.count and not template.price
    ]
    found: dict[str, Any] = {"name": fleet.name} if fleet.name else {}
    found |= {
        "nodes": len(fleet.nodes) + sum(one.get("kind") == "Node" for one in objects),
        "pools": sum(one.get("kind") == "NodeProvisioner" for one in objects),
    }
    if models:
        found["GPUs"] = ", ".join(f"{count:,} {model}" for model, count in sorted(models.items()))
    return found | {"prices": world_spec(recipe).prices.sources(unpriced)}


def changed_settings(settings: Settings) -> dict[str, Any]:
    """Settings that differ from their defaults, by path."""
    plain, usual = as_plain(settings), as_plain(Settings())
    return {
        f"{section}.{name}": value
        for section, values in plain.items()
        for name, value in values.items()
        if value != usual[section][name]
    }


def _gpus(job: TraceJob) -> float:
    return job.gpus * job.share_milli / 1000 if job.is_share else job.gpus
