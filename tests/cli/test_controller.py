"""`ullage controller`: what it makes of its options."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ullage.cli.controller import command
from ullage.cli.main import run
from ullage.cli.setting_options import read_options
from ullage.config.settings import Settings
from ullage.errors import UserError


def read(*options: str, environment: Mapping[str, str] | None = None) -> Settings:
    with command.make_context("controller", list(options)) as context:
        return read_options(context.params, environment or {})


def test_settings_by_provider() -> None:
    texts = ("aws.cluster=prod", "aws.endpoint=http://x/?a=b", "aws.subnets=a,b", "kwok.namespace=books")
    options = [part for text in texts for part in ("--provider-setting", text)]
    assert read(*options).provisioning.providers == {
        "aws": {"cluster": "prod", "endpoint": "http://x/?a=b", "subnets": "a,b"},
        "kwok": {"namespace": "books"},
    }


@pytest.mark.parametrize("text", ["aws", "aws.cluster", "=x", ".a=b", "aws.=x"])
def test_what_is_no_setting(text: str) -> None:
    with pytest.raises(UserError, match=r"--provider-setting: .*is not PROVIDER\.KEY=VALUE"):
        read("--provider-setting", text)


@pytest.mark.parametrize("price", ["much", "-1"])
def test_what_is_no_price(price: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["controller", "--max-price-per-hour", price]) == 1
    assert f"--max-price-per-hour: is '{price}'; allowed: a price such as" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "limits"),
    [
        pytest.param((), (100, 50), id="as-usual"),
        pytest.param(("--max-scale-down-parallelism", "7"), (7, 7), id="drains-among-them"),
        pytest.param(("--max-scale-down-parallelism", "1"), (1, 1), id="one-and-it-may-be-drained"),
        pytest.param(("--max-scale-down-parallelism", "1", "--max-drain-parallelism", "1"), (1, 1), id="one-by-one"),
        pytest.param(("--max-drain-parallelism", "3"), (100, 3), id="drains"),
        pytest.param(("--max-empty-bulk-delete", "9"), (9, 9), id="the-old-name"),
    ],
)
def test_limits_of_draining(options: tuple[str, ...], limits: tuple[int, int]) -> None:
    settings = read(*options).draining
    assert (settings.max_scale_down_parallelism, settings.drains_at_once) == limits


def test_the_old_name_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    read("--max-empty-bulk-delete", "9")
    assert "--max-empty-bulk-delete is deprecated" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        pytest.param(
            ("--max-scale-down-parallelism", "5", "--max-drain-parallelism", "6"),
            "--max-drain-parallelism: is",
            id="more",
        ),
        pytest.param(("--max-drain-parallelism", "101"), "--max-drain-parallelism: is", id="more-than-are-usual"),
        pytest.param(
            ("--max-empty-bulk-delete", "5", "--max-scale-down-parallelism", "5"), "the old name", id="both-names"
        ),
        pytest.param(("--drain-candidate-label", "old"), "is not LABEL=VALUE", id="no-label"),
        pytest.param(("--scan-interval", "soon"), "--scan-interval: is 'soon'; allowed: a time", id="no-duration"),
    ],
)
def test_what_makes_no_sense_of_draining(
    options: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["controller", *options]) == 1
    assert says in capsys.readouterr().err


def test_options_of_draining_are_understood() -> None:
    settings = read(
        "--drain-unmanaged",
        "--scale-down-unneeded-time=90s",
        "--node-delete-delay-after-taint=1s",
        "--max-pod-eviction-time=3m",
        "--max-graceful-termination=1h",
        "--gpu-utilization-threshold=0.25",
        "--no-skip-nodes-with-local-storage",
        "--min-cores-total=64",
        "--min-memory-total=512",
        "--min-gpus-total=8",
        "--min-nodes-evaluated=3",
        "--drain-candidate-label=generation=old",
        "--drain-destination-label=zone=a",
        "--drain-destination-label=generation=new",
    ).draining
    assert settings.candidate_labels == {"generation": "old"}
    assert settings.destination_labels == {"zone": "a", "generation": "new"}
    assert (settings.min_cores_total, settings.min_memory_total, settings.min_gpus_total) == (64, 512, 8)
    assert settings.min_nodes_evaluated == 3
    assert (settings.drain_unmanaged, settings.scale_down_unneeded_time) == (True, 90.0)
    assert (settings.node_delete_delay_after_taint, settings.max_pod_eviction_time) == (1.0, 180.0)
    assert settings.max_graceful_termination == 3600.0
    assert (settings.gpu_utilization_threshold, settings.skip_nodes_with_local_storage) == (0.25, False)


FILE = """
scheduling: {leaseNamespace: leases, profiles: {batch: packing}}
provisioning: {maxGpus: 10, providers: {aws: {cluster: prod, region: a}}}
draining: {maxScaleDownParallelism: 8, maxDrainParallelism: 3, scanInterval: 500ms,
  skipNodesWithSystemPods: false, unremovableRecheckTimeout: 9s}
"""


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param((), ("leases", ("gpu-scheduler", "batch"), 10, "a", 8, 3, 0.5, False, 9.0), id="as-the-file-says"),
        pytest.param(
            ("--namespace=n", "--scheduler-name=x", "--max-gpus=5", "--provider-setting=aws.region=b"),
            ("n", ("x",), 5, "b", 8, 3, 0.5, False, 9.0),
            id="options-first",
        ),
        pytest.param(
            ("--max-scale-down-parallelism=3", "--scan-interval=2s", "--skip-nodes-with-system-pods"),
            ("leases", ("gpu-scheduler", "batch"), 10, "a", 3, 3, 2.0, True, 9.0),
            id="options-of-draining-first",
        ),
        pytest.param(
            ("--max-empty-bulk-delete=9", "--max-drain-parallelism=4"),
            ("leases", ("gpu-scheduler", "batch"), 10, "a", 9, 4, 0.5, False, 9.0),
            id="the-old-name",
        ),
    ],
)
def test_a_settings_file(options: tuple[str, ...], expected: tuple[Any, ...], tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(FILE)
    found = read("--settings", str(file), *options)
    provisioning, draining = found.provisioning, found.draining
    assert expected == (
        found.scheduling.lease_namespace,
        found.scheduler_names,
        provisioning.max_gpus,
        provisioning.providers["aws"]["region"],
        draining.max_scale_down_parallelism,
        draining.drains_at_once,
        draining.scan_interval,
        draining.skip_nodes_with_system_pods,
        draining.unremovable_recheck_timeout,
    )
    assert provisioning.providers["aws"]["cluster"] == "prod"
