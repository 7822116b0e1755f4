"""The pytest plugin: real control planes as fixtures. Load it with `-p ullage.testing.controlplane.fixtures`.

* `control_plane`: etcd and kube-apiserver, one for the whole run; use a namespace of your own.
* `workload_control_plane`: kube-controller-manager and KWOK on top, one for the whole run.
* `start_control_plane`: a function that starts a private one, for tests that kill or configure it.

Where the programs are not built, tests that ask for one of these are skipped with the reason, but fail if CI=true.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ullage.testing.controlplane import WORKLOADS, ControlPlane, ControlPlaneSpec, GoProgram, MissingProgram
from ullage.testing.controlplane.binaries import find

StartControlPlane = Callable[[ControlPlaneSpec], ControlPlane]


def prepare(spec: ControlPlaneSpec) -> ControlPlane:
    """A control plane ready to start, or the end of the test that needs it."""
    try:
        return ControlPlane(spec)
    except MissingProgram as missing:
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(f"NO REAL CONTROL PLANE: {missing}", pytrace=False)
        pytest.skip(f"NO REAL CONTROL PLANE: {missing}")


def program(name: GoProgram) -> Path:
    """A program that runs by itself, such as kubectl, or the end of the test that needs it."""
    try:
        return find(name)
    except MissingProgram as missing:
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(f"NO REAL CONTROL PLANE: {missing}", pytrace=False)
        pytest.skip(f"NO REAL CONTROL PLANE: {missing}")


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """etcd and kube-apiserver, shared by every test of the run."""
    with prepare(ControlPlaneSpec()) as plane:
        yield plane


@pytest.fixture(scope="session")
def workload_control_plane() -> Iterator[ControlPlane]:
    """Deployments and Jobs make pods, and pods on nodes annotated for KWOK run; shared by every test of the run."""
    with prepare(ControlPlaneSpec(components=WORKLOADS)) as plane:
        yield plane


@pytest.fixture
def start_control_plane() -> Iterator[StartControlPlane]:
    """Start control planes of the test's own; they end with the test."""
    with ExitStack() as running:
        yield lambda spec: running.enter_context(prepare(spec))
