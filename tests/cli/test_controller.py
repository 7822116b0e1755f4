"""`ullage controller`: what it makes of its options."""

from pathlib import Path
from typing import Any

import pytest

from ullage.cli.controller import command, read_all, read_provider_settings
from ullage.cli.main import run
from ullage.cli.setting_options import read_draining
from ullage.decide.draining.inputs import LabelledNodes
from ullage.errors import UserError


def test_settings_by_provider() -> None:
    texts = ("aws.cluster=prod", "aws.endpoint=http://x/?a=b", "kwok.namespace=books")
    assert read_provider_settings(texts) == {
        "aws": {"cluster": "prod", "endpoint": "http://x/?a=b"},
        "kwok": {"namespace": "books"},
    }


@pytest.mark.parametrize("text", ["aws", "aws.cluster", "=x", ".a=b", "aws.=x"])
def test_what_is_no_setting(text: str) -> None:
    with pytest.raises(UserError, match=r"is not PROVIDER\.KEY=VALUE"):
        read_provider_settings((text,))


@pytest.mark.parametrize(("price", "says"), [("much", "is not a price"), ("-1", "must not be negative")])
def test_what_is_no_price(price: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["controller", "--max-price-per-hour", price]) == 1
    assert says in capsys.readouterr().err


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
    settings = read_draining(_options(*options))
    assert (settings.most_at_once, settings.most_drains) == limits


def test_the_old_name_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    read_draining(_options("--max-empty-bulk-delete", "9"))
    assert "--max-empty-bulk-delete is deprecated" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        pytest.param(
            ("--max-scale-down-parallelism", "5", "--max-drain-parallelism", "6"), "must not be more", id="more"
        ),
        pytest.param(("--max-drain-parallelism", "101"), "must not be more", id="more-than-are-usual"),
        pytest.param(
            ("--max-empty-bulk-delete", "5", "--max-scale-down-parallelism", "5"), "the old name", id="both-names"
        ),
        pytest.param(("--drain-candidate-label", "old"), "is not KEY=VALUE", id="no-label"),
        pytest.param(("--scan-interval", "soon"), "--scan-interval: 'soon' is not a duration", id="no-duration"),
    ],
)
def test_what_makes_no_sense_of_draining(
    options: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["controller", *options]) == 1
    assert says in capsys.readouterr().err


def test_options_of_draining_are_understood() -> None:
    settings = read_draining(
        _options(
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
        )
    )
    labels = LabelledNodes(candidates={"generation": "old"}, destinations={"zone": "a", "generation": "new"})
    assert settings.node_filters == (labels,)
    assert settings.least_resources == {"cpu": 64_000, "memory": 512 * 2**30 * 1000, "nvidia.com/gpu": 8000}
    assert settings.least_tried == 3
    assert (settings.unmanaged, settings.unneeded, settings.pace.after_taint) == (True, 90.0, 1.0)
    assert (settings.pace.evictions.deadline, settings.pace.evictions.most_grace) == (180.0, 3600.0)
    assert (settings.policy.gpu_used_milli, settings.policy.rules.local_storage_stays) == (250, False)


FILE = """
scheduling: {leaseNamespace: leases, profiles: {batch: packing}}
provisioning: {maxGpus: 10, providers: {aws: {cluster: prod, region: a}}}
draining: {maxScaleDownParallelism: 8, maxDrainParallelism: 3, scanInterval: 500ms, systemPodsStay: false, recheck: 9s}
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
    with command.make_context("controller", ["--settings", str(file), *options]) as context:
        found = read_all(context.params)
    provisioning, draining = found.controller.provisioning, found.draining
    assert expected == (
        draining.lease_namespace,
        provisioning.schedulers,
        provisioning.budget.gpus,
        found.controller.providers["aws"]["region"],
        draining.most_at_once,
        draining.most_drains,
        draining.pause,
        draining.policy.rules.system_pods_stay,
        draining.policy.recheck,
    )
    assert found.controller.providers["aws"]["cluster"] == "prod"


def _options(*given: str) -> dict[str, Any]:
    return command.make_context("controller", list(given)).params
