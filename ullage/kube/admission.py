"""Admission on the wire: reviews to facts, judgements to answers and JSON patches. Nothing is judged here."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar, cast

import msgspec

from ullage.errors import Unreadable
from ullage.kube.encoding import encode
from ullage.kube.objects.admission import (
    AdmissionAnswer,
    AdmissionReview,
    AnsweredReview,
    AnswerStatus,
    EnvEntry,
    ReviewedContainer,
    ReviewedMeta,
    ReviewedPod,
    ReviewedResources,
    ReviewedToleration,
    ReviewUid,
)
from ullage.kube.resource import JsonObject
from ullage.model.admission import (
    AskedContainer,
    AskedPod,
    DropAnnotation,
    EnvVar,
    Judgement,
    Objection,
    PodChange,
    Refused,
    RequestGpus,
    Role,
    SelectNodes,
    SetEnv,
    SetScheduler,
    Spot,
    Tolerate,
)
from ullage.model.event import ObjectKey
from ullage.model.quantity import milli
from ullage.model.resources import GPU

T = TypeVar("T")

API_VERSION, KIND = "admission.k8s.io/v1", "AdmissionReview"
_LONGEST_UID = 256
_LONGEST_WARNING = 256  # longer ones are cut by the API server's clients
_ANNOTATION_OPENING, _ANNOTATION_CLOSING = "metadata.annotations['", "']"
_LISTS = {Role.INIT: "initContainers", Role.SIDECAR: "initContainers", Role.APP: "containers"}
_LIST_OF = _LISTS | {Role.EPHEMERAL: "ephemeralContainers"}
_CODES = {
    Objection.FOREIGN_OUTPUT: (403, "Forbidden"),
    Objection.CLAIM_UNKNOWN: (503, "ServiceUnavailable"),
    Objection.MALFORMED: (400, "BadRequest"),
}
_UNREADABLE = (msgspec.MsgspecError, RecursionError, ValueError)
"""What decoding raises: wrong types, no JSON, too deep, no text."""

_review = msgspec.json.Decoder(AdmissionReview)
_uid = msgspec.json.Decoder(ReviewUid)
_decoders: dict[type[Any], msgspec.json.Decoder[Any]] = {}


def read_review(body: bytes) -> AdmissionReview:
    """Raises Unreadable."""
    try:
        review = _review.decode(body)
    except _UNREADABLE as error:
        raise Unreadable(f"not an {KIND}: {_words(error)}") from error
    if (review.api_version, review.kind) != (API_VERSION, KIND):
        raise Unreadable(f"{review.api_version[:64]}, {review.kind[:64]} is not {API_VERSION}, {KIND}")
    return review


def read_uid(body: bytes) -> str:
    """The uid of a review that is otherwise unreadable; empty where there is none to answer with."""
    try:
        uid = _uid.decode(body).request.uid
    except _UNREADABLE:
        return ""
    return uid if len(uid) <= _LONGEST_UID else ""


def read_object(raw: msgspec.Raw, kind: type[T], what: str) -> T:
    """An object out of a review. Raises Unreadable."""
    if kind not in _decoders:
        _decoders[kind] = msgspec.json.Decoder(kind)
    try:
        return cast(T, _decoders[kind].decode(raw))
    except _UNREADABLE as error:
        raise Unreadable(f"{what}: {_words(error)}") from error


def _words(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)[:512]


def read_key(meta: ReviewedMeta, namespace: str, name: str = "") -> ObjectKey:
    """What an object is called, or will be."""
    return ObjectKey(namespace or meta.namespace or "", name or meta.name or meta.generate_name or "")


def read_pod(raw: ReviewedPod, namespace: str) -> AskedPod:
    """A pod's facts. Raises Unreadable."""
    spec = raw.spec
    return AskedPod(
        key=read_key(raw.metadata, namespace),
        annotations=raw.metadata.annotations or {},
        scheduler=spec.scheduler_name or "",
        node=spec.node_name or "",
        node_selector=spec.node_selector or {},
        tolerated=tuple(one.key or "" for one in spec.tolerations or () if _tolerates_all(one)),
        containers=(
            *_containers(Role.INIT, spec.init_containers or ()),
            *_containers(Role.APP, spec.containers or ()),
            *_containers(Role.EPHEMERAL, spec.ephemeral_containers or ()),
        ),
    )


def _tolerates_all(one: ReviewedToleration) -> bool:
    return one.operator == "Exists" and one.effect in (None, "", "NoSchedule")


def _containers(role: Role, raw: Iterable[ReviewedContainer]) -> Iterator[AskedContainer]:
    for index, one in enumerate(raw):
        stays = role is Role.INIT and one.restart_policy == "Always"
        yield AskedContainer(
            spot=Spot(Role.SIDECAR if stays else role, index),
            name=one.name,
            env=tuple([_variable(entry) for entry in one.env or ()]),
            gpus_milli=_gpus(one.resources, f"spec.{_LIST_OF[role]}[{index}]"),
        )


def _variable(entry: EnvEntry) -> EnvVar:
    source = entry.value_from
    if source is None:
        return EnvVar(entry.name, entry.value or "")
    path = source.field_ref.field_path if source.field_ref is not None else ""
    if path.startswith(_ANNOTATION_OPENING) and path.endswith(_ANNOTATION_CLOSING):
        return EnvVar(entry.name, annotation=path.removeprefix(_ANNOTATION_OPENING).removesuffix(_ANNOTATION_CLOSING))
    return EnvVar(entry.name)


def _gpus(resources: ReviewedResources | None, where: str) -> int:
    if resources is None:
        return 0
    try:
        return max(milli(amounts.get(GPU, 0)) for amounts in (resources.requests or {}, resources.limits or {}))
    except ValueError as error:
        raise Unreadable(f"{where}.resources: {GPU}: {error}") from error


def answer(uid: str, judgement: Judgement, pod: ReviewedPod | None = None) -> bytes:
    """The review as it goes back. `pod` is what the changes are about."""
    return encode(AnsweredReview(api_version=API_VERSION, kind=KIND, response=_response(uid, judgement, pod)))


def _response(uid: str, judgement: Judgement, pod: ReviewedPod | None) -> AdmissionAnswer:
    if isinstance(judgement, Refused):
        code, reason = _CODES.get(judgement.objection, (422, "Invalid"))
        status = AnswerStatus(code=code, reason=reason, message=f"{judgement.objection}: {judgement.message}")
        return AdmissionAnswer(uid=uid, allowed=False, status=status)
    warnings = tuple(text[:_LONGEST_WARNING] for text in judgement.warnings)
    if pod is None or not judgement.changes:
        return AdmissionAnswer(uid=uid, allowed=True, warnings=warnings)
    patch = encode(json_patch(judgement.changes, pod))
    return AdmissionAnswer(uid=uid, allowed=True, patch_type="JSONPatch", patch=patch, warnings=warnings)


def refusal_status(code: int, reason: str, message: str) -> bytes:
    """A Status, for what is no review and so cannot be answered with one."""
    body = {"apiVersion": "v1", "kind": "Status", "status": "Failure"}
    return encode(body | {"code": code, "reason": reason, "message": message})


def json_patch(changes: Iterable[PodChange], pod: ReviewedPod) -> list[JsonObject]:
    """The changes as RFC 6902 says them."""
    return [operation for change in changes for operation in _operations(change, pod)]


def _operations(change: PodChange, pod: ReviewedPod) -> Iterator[JsonObject]:
    match change:
        case DropAnnotation(key):
            yield {"op": "remove", "path": f"/metadata/annotations/{_escaped(key)}"}
        case SetScheduler(name):
            yield _add("/spec/schedulerName", name)
        case Tolerate(key):
            toleration = {"key": key, "operator": "Exists", "effect": "NoSchedule"}
            yield _add_item("/spec/tolerations", toleration, there=bool(pod.spec.tolerations), at="-")
        case SelectNodes(key, value):
            if pod.spec.node_selector is None:
                yield _add("/spec/nodeSelector", {key: value})
            else:
                yield _add(f"/spec/nodeSelector/{_escaped(key)}", value)
        case SetEnv(spot, drop, put):
            yield from _env_operations(_path(spot), _container(pod, spot), drop, put)
        case RequestGpus(spot, count):
            yield from _resource_operations(_path(spot), _container(pod, spot).resources, count)


def _env_operations(
    path: str, container: ReviewedContainer, drop: tuple[int, ...], put: tuple[EnvVar, ...]
) -> Iterator[JsonObject]:
    for place in sorted(drop, reverse=True):
        yield {"op": "remove", "path": f"{path}/env/{place}"}
    written = [_entry(one) for one in put]
    if container.env is None or len(container.env) == 0:
        yield _add(f"{path}/env", written)
        return
    for place, entry in enumerate(written):
        yield _add(f"{path}/env/{place}", entry)


def _entry(variable: EnvVar) -> JsonObject:
    if variable.annotation is None:
        return {"name": variable.name, "value": variable.value or ""}
    path = f"{_ANNOTATION_OPENING}{variable.annotation}{_ANNOTATION_CLOSING}"
    return {"name": variable.name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}


def _resource_operations(path: str, resources: ReviewedResources | None, count: int) -> Iterator[JsonObject]:
    """Kubernetes wants requests and limits of such a resource to be equal."""
    if resources is None:
        yield _add(f"{path}/resources", {"requests": {GPU: str(count)}, "limits": {GPU: str(count)}})
        return
    there: Mapping[str, object] = {"requests": resources.requests, "limits": resources.limits}
    for name, amounts in there.items():
        if amounts is None:
            yield _add(f"{path}/resources/{name}", {GPU: str(count)})
        else:
            yield _add(f"{path}/resources/{name}/{_escaped(GPU)}", str(count))


def _container(pod: ReviewedPod, spot: Spot) -> ReviewedContainer:
    lists = {
        "initContainers": pod.spec.init_containers,
        "containers": pod.spec.containers,
        "ephemeralContainers": pod.spec.ephemeral_containers,
    }
    return (lists[_LIST_OF[spot.role]] or ())[spot.index]


def _path(spot: Spot) -> str:
    return f"/spec/{_LIST_OF[spot.role]}/{spot.index}"


def _add(path: str, value: object) -> JsonObject:
    """RFC 6902's add, which also replaces what an object has there."""
    return {"op": "add", "path": path, "value": value}


def _add_item(path: str, value: object, *, there: bool, at: str) -> JsonObject:
    return _add(f"{path}/{at}", value) if there else _add(path, [value])


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
