"""The settings file to what loops take: by default exactly what they take without one."""

from ullage.config.loading import read_settings
from ullage.config.settings import Settings
from ullage.control.configured import draining_settings, provisioning_settings, scheduler_settings
from ullage.control.draining.settings import DrainingSettings
from ullage.control.provisioning.wiring import ControllerSettings
from ullage.control.scheduling.wiring import SchedulerSettings


def test_defaults_are_those_of_the_loops() -> None:
    assert scheduler_settings(Settings()) == SchedulerSettings()
    assert provisioning_settings(Settings()) == ControllerSettings()
    assert draining_settings(Settings()) == DrainingSettings()


def test_what_is_said_arrives() -> None:
    text = """
scheduling: {policy: spread, profiles: {batch: packing}, maxConditionParallelism: 3,
  initialBackoff: 2s, releaseLeases: false}
provisioning: {maxGpus: 10, maxPricePerHour: 2.5, planInterval: 3s, maxTaintParallelism: 4,
  providers: {aws: {cluster: c}}}
draining: {drainUnmanaged: true, gpuUtilizationThreshold: 0.3, maxPodEvictionTime: 1m, minReplicaCount: 2,
  simulationTimeout: 4s}
"""
    settings = read_settings(text, "policy.yaml")
    scheduler = scheduler_settings(settings)
    assert scheduler.profiles == {"gpu-scheduler": "spread", "batch": "packing"}
    assert (scheduler.pipeline.refusals, scheduler.pace.first_backoff, scheduler.sweep) == (3, 2.0, False)
    controller = provisioning_settings(settings)
    assert (controller.provisioning.budget.gpus, controller.provisioning.budget.price) == (10, 2_500_000)
    assert controller.provisioning.schedulers == ("gpu-scheduler", "batch"), "whose pods it buys for"
    assert (controller.provisioning.pause, controller.provisioning.at_once) == (3.0, 4)
    assert controller.providers == {"aws": {"cluster": "c"}}
    draining = draining_settings(settings)
    assert (draining.unmanaged, draining.policy.gpu_used_milli, draining.policy.rules.min_replicas) == (True, 300, 2)
    assert (draining.pace.evictions.deadline, draining.plan_seconds) == (60.0, 4.0)
