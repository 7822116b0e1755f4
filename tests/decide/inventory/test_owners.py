"""Cgroup spellings found in the wild: every driver and runtime leads to the same pod."""

import pytest

from ullage.decide.inventory.owners import pod_of

UID = "0d9f3c1e-52f4-4c1b-9a63-0f6a4b7c8d9e"
SLICE = UID.replace("-", "_")
BOX = "a" * 64


@pytest.mark.parametrize(
    ("cgroups", "uid"),
    [
        pytest.param(f"0::/kubepods/burstable/pod{UID}/{BOX}", UID, id="v2-cgroupfs"),
        pytest.param(f"0::/kubepods/pod{UID}/{BOX}", UID, id="v2-cgroupfs-guaranteed"),
        pytest.param(
            f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SLICE}.slice/cri-containerd-{BOX}.scope",
            UID,
            id="v2-systemd-containerd",
        ),
        pytest.param(
            f"0::/kubepods.slice/kubepods-pod{SLICE}.slice/crio-{BOX}.scope/container", UID, id="v2-systemd-crio"
        ),
        pytest.param(
            f"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{SLICE}.slice/docker-{BOX}.scope",
            UID,
            id="v2-systemd-docker",
        ),
        pytest.param(
            f"12:pids:/kubepods/besteffort/pod{UID}/{BOX}\n11:memory:/kubepods/besteffort/pod{UID}/{BOX}\n",
            UID,
            id="v1-cgroupfs",
        ),
        pytest.param(
            f"9:name=systemd:/\n4:memory:/kubepods.slice/kubepods-pod{SLICE}.slice/{BOX}", UID, id="v1-systemd"
        ),
        pytest.param(
            f"3:cpu,cpuacct:/system.slice/containerd.service/kubepods-burstable-pod{SLICE}.slice:cri-containerd:{BOX}",
            UID,
            id="v1-containerd-under-its-service",
        ),
        pytest.param(
            "0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/"
            f"kubelet-kubepods-besteffort-pod{SLICE}.slice/cri-containerd-{BOX}.scope",
            UID,
            id="nested-in-kind",
        ),
        pytest.param(f"0::/../../kubepods/burstable/pod{UID}/{BOX}", UID, id="seen-from-another-cgroup"),
        pytest.param(f"0::/kubepods/burstable/pod{'0f' * 16}/{BOX}", "0f" * 16, id="static-pod"),
        pytest.param("0::/system.slice/nvidia-persistenced.service", "", id="host-service"),
        pytest.param("0::/user.slice/user-1000.slice/session-3.scope", "", id="somebody-on-the-host"),
        pytest.param(f"0::/machine.slice/libpod-{BOX}.scope", "", id="podman-is-no-pod-of-kubelet"),
        pytest.param(f"0::/kubepods/burstable/pod{UID}extra/{BOX}", "", id="longer-than-a-uid"),
        pytest.param("0::/kubepods.slice", "", id="kubelet-itself"),
        pytest.param("garbage", "", id="garbage"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_the_pod_of_a_process(cgroups: str, uid: str) -> None:
    assert pod_of(cgroups) == uid
