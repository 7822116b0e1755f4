"""Reload: live settings are taken over, others wait for a restart, and nothing is taken over by halves."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.config.declaration import declared, sections
from ullage.config.loading import override, read_settings
from ullage.config.reload import changes, reload
from ullage.config.settings import DrainingSettings, Settings

LIVE = [f"{name}.{one.name}" for name, section in sections(Settings) for one in declared(section) if one.live]
OTHER_VALUES = {
    "scheduling.policy": "spread",
    "scheduling.leaseNamespace": "gpus",
    "scheduling.maxBindParallelism": "3",
    "scheduling.initialBackoff": "2s",
    "provisioning.maxGpus": "5",
    "provisioning.schedulerNames": "[batch]",
    "draining.utilizationThreshold": "0.7",
    "draining.maxScaleDownParallelism": "60",
    "draining.maxSoftTaintsPerLoop": "1",
    "karpenter.maxInFlight": "2",
}


@given(st.sets(st.sampled_from(sorted(OTHER_VALUES))))
def test_what_is_in_force_is_the_new_value_where_it_is_live_and_the_old_one_elsewhere(paths: set[str]) -> None:
    wanted = Settings()
    for path in sorted(paths):
        wanted = override(wanted, path, OTHER_VALUES[path], "")
    done = reload(Settings(), wanted)
    assert {one.path for one in done.applied} == paths & set(LIVE)
    assert {one.path for one in done.waiting} == paths - set(LIVE)
    assert changes(Settings(), done.settings) == done.applied
    assert reload(done.settings, wanted).applied == (), "a second time nothing is new"
    assert changes(done.settings, wanted) == done.waiting


@pytest.mark.parametrize(
    ("old", "new", "restart"),
    [
        pytest.param("{}", "{gpu-scheduler: spread}", False, id="another-policy-of-the-default"),
        pytest.param("{batch: packing}", "{batch: spread}", False, id="another-policy-of-a-profile"),
        pytest.param("{}", "{batch: spread}", True, id="another-scheduler"),
        pytest.param("{batch: spread}", "{batch: spread, gpu-scheduler: null}", True, id="one-less"),
        pytest.param("{}", "{batch: null}", False, id="one-that-was-never-served"),
    ],
)
def test_policies_change_live_and_scheduler_names_do_not(old: str, new: str, restart: bool) -> None:
    before, after = (read_settings(f"scheduling: {{profiles: {text}}}", "") for text in (old, new))
    assert [change.restart for change in changes(before, after)] == [restart]


def test_a_live_setting_that_contradicts_one_that_waits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def law(settings: Settings) -> list[tuple[str, str]]:
        small = settings.draining.max_scale_down_parallelism < 5 and settings.scheduling.lease_namespace != "small"
        return [("draining.maxScaleDownParallelism", "must not be below 5 but in small")] if small else []

    monkeypatch.setattr("ullage.config.reload.broken_laws", law)
    wanted = override(Settings(), "scheduling.leaseNamespace", "small", "")
    wanted = replace(wanted, draining=DrainingSettings(max_scale_down_parallelism=1))
    with pytest.raises(ValueError, match=r"draining\.maxScaleDownParallelism: must not be below 5"):
        reload(Settings(), wanted)
