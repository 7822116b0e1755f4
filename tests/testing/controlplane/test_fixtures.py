"""Without the programs, tests on the real control plane are skipped aloud at a desk and fail in CI."""

from pathlib import Path

import pytest

from ullage.testing.controlplane import ControlPlaneSpec
from ullage.testing.controlplane.fixtures import prepare


@pytest.fixture(autouse=True)
def nothing_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("ULLAGE_CONTROLPLANE_BIN", raising=False)


def test_at_a_desk_the_test_is_skipped_with_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"NO REAL CONTROL PLANE: etcd, .*make controlplane"):
        prepare(ControlPlaneSpec())


def test_in_ci_the_test_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="NO REAL CONTROL PLANE"):
        prepare(ControlPlaneSpec())
