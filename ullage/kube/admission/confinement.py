"""Fields of a reviewed pod that decide which GPUs its containers can reach, beside the env that the webhook sets.

The container runtime is asked for GPUs by the env of a container, by CDI annotations, and by mounts under one folder; a
privileged container and one that mounts the host's devices see them all, whatever was asked for.
"""

from collections.abc import Iterator

from ullage.kube.objects.admission import (
    EnvEntry,
    ReviewedContainer,
    ReviewedNodeTerm,
    ReviewedPod,
    ReviewedPodSpec,
    ReviewedToleration,
)
from ullage.model.admission import LEASED_TAINT
from ullage.model.device import KIND_LABEL, GpuNodeKind

VENDOR = "nvidia.com/"
CDI = "cdi.k8s.io/"
DEVICE_MOUNTS = "/var/run/nvidia-container-devices"
VISIBLE = "NVIDIA_VISIBLE_DEVICES"
NOTHING = ("", "void", "none")
"""Values by which a container gets no GPU."""
_LEASED = GpuNodeKind.LEASED.value.lower()


def tolerates_leased(spec: ReviewedPodSpec) -> bool:
    """True if the pod tolerates the taint of leased nodes."""
    return any(_tolerates(one) for one in spec.tolerations or ())


def _tolerates(one: ReviewedToleration) -> bool:
    if one.effect not in (None, "", "NoSchedule"):
        return False
    if not one.key:
        return one.operator == "Exists"
    return one.key == LEASED_TAINT and (one.operator == "Exists" or one.value == "true")


def asks_for_gpus(pod: ReviewedPod) -> bool:
    """True if the pod asks for GPUs by other means than a GpuClaim."""
    return _has_cdi(pod) or any(_asks(one) for one in _containers(pod.spec))


def _asks(one: ReviewedContainer) -> bool:
    asked = () if one.resources is None else (one.resources.requests or {}, one.resources.limits or {})
    return (
        any(name.startswith(VENDOR) for amounts in asked for name in amounts)
        or any(entry.name == VISIBLE and not _is_nothing(entry) for entry in one.env or ())
        or any(_is_device_mount(mount.mount_path) for mount in one.volume_mounts or ())
    )


def _is_nothing(entry: EnvEntry) -> bool:
    return entry.value_from is None and (entry.value or "") in NOTHING


def loopholes(pod: ReviewedPod) -> Iterator[str]:
    """Fields by which the pod's containers could reach GPUs that are not allocated to them."""
    for key in sorted(pod.metadata.annotations or {}):
        if key.startswith(CDI):
            yield f"metadata.annotations[{key}]"
    for one in _containers(pod.spec):
        if one.security_context is not None and one.security_context.privileged:
            yield f"securityContext.privileged of container {one.name}"
        for mount in one.volume_mounts or ():
            if _is_device_mount(mount.mount_path):
                yield f"the mount {mount.mount_path} of container {one.name}"
    for volume in pod.spec.volumes or ():
        path = "" if volume.host_path is None else volume.host_path.path.rstrip("/") or "/"
        if path in ("/", "/dev") or path.startswith("/dev/nvidia"):
            yield f"hostPath {path} of volume {volume.name}"


def keeps_off_leased(spec: ReviewedPodSpec) -> bool:
    """True if the pod's node selector or node affinity excludes leased nodes, for any scheduler and for the kubelet."""
    kind = (spec.node_selector or {}).get(KIND_LABEL)
    if kind is not None:
        return kind != _LEASED
    terms = node_terms(spec)
    return bool(terms) and all(_excludes(term) for term in terms)


def node_terms(spec: ReviewedPodSpec) -> tuple[ReviewedNodeTerm, ...]:
    """Required node affinity terms of the pod. A node must match any of them. An empty term matches no node."""
    affinity = None if spec.affinity is None else spec.affinity.node_affinity
    required = None if affinity is None else affinity.required
    return () if required is None else tuple(required.node_selector_terms or ())


def says_something(term: ReviewedNodeTerm) -> bool:
    return bool(term.match_expressions or term.match_fields)


def _excludes(term: ReviewedNodeTerm) -> bool:
    if not says_something(term):
        return True
    return any(
        one.key == KIND_LABEL
        and (
            (one.operator == "NotIn" and _LEASED in (one.values or ()))
            or (one.operator == "In" and _LEASED not in (one.values or ()))
        )
        for one in term.match_expressions or ()
    )


def _has_cdi(pod: ReviewedPod) -> bool:
    return any(key.startswith(CDI) for key in pod.metadata.annotations or {})


def _is_device_mount(path: str) -> bool:
    return f"{path.rstrip('/')}/".startswith(f"{DEVICE_MOUNTS}/")


def _containers(spec: ReviewedPodSpec) -> tuple[ReviewedContainer, ...]:
    return (*(spec.init_containers or ()), *(spec.containers or ()), *(spec.ephemeral_containers or ()))
