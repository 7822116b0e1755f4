"""Admission on the wire: reviews to facts, judgements to responses and JSON patches. No admission decisions here."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar, cast

import msgspec

from ullage.errors import Unreadable
from ullage.kube.admission import confinement
from ullage.kube.client.json_codec import encode
from ullage.kube.client.resource import JsonObject
from ullage.kube.objects.admission import (
    AdmissionAnswer,
    AdmissionReview,
    AnsweredReview,
    AnswerStatus,
    EnvEntry,
    ReviewedContainer,
    ReviewedMeta,
    ReviewedPod,
    ReviewedPodSpec,
    ReviewedResources,
    ReviewedToleration,
    ReviewUid,
)
from ullage.model.admission import (
    AddNodeSelector,
    AddTolerations,
    AdmissionContainer,
    AdmissionDenied,
    AdmissionPod,
    AvoidNodes,
    ContainerPath,
    ContainerRole,
    DenialReason,
    DropAnnotation,
    EnvVar,
    Judgement,
    PodChange,
    RequestGpus,
    SetEnv,
    SetScheduler,
)
from ullage.model.fact_event import ObjectKey
from ullage.model.karpenter import is_smart_pod
from ullage.model.quantity import milli
from ullage.model.resources import GPU
from ullage.model.units import Milli

T = TypeVar("T")

API_VERSION, KIND = "admission.k8s.io/v1", "AdmissionReview"
_LONGEST_UID = 256
_LONGEST_WARNING = 256  # longer ones are cut by the API server's clients
_ANNOTATION_OPENING, _ANNOTATION_CLOSING = "metadata.annotations['", "']"
_LISTS = {
    ContainerRole.INIT: "initContainers",
    ContainerRole.SIDECAR: "initContainers",
    ContainerRole.APP: "containers",
}
_LIST_OF = _LISTS | {ContainerRole.EPHEMERAL: "ephemeralContainers"}
_CODES = {
    DenialReason.FOREIGN_OUTPUT: (403, "Forbidden"),
    DenialReason.UNCONFINED: (403, "Forbidden"),
    DenialReason.LEASED_TOLERATED: (403, "Forbidden"),
    DenialReason.CLAIM_UNKNOWN: (503, "ServiceUnavailable"),
    DenialReason.MALFORMED: (400, "BadRequest"),
}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_UNREADABLE = (msgspec.MsgspecError, RecursionError, ValueError)
"""Exceptions that decoding raises: wrong types, no JSON, nested too deeply, no text."""

_review = msgspec.json.Decoder(AdmissionReview)
_uid = msgspec.json.Decoder(ReviewUid)
_decoders: dict[type[Any], msgspec.json.Decoder[Any]] = {}


def read_review(body: bytes) -> AdmissionReview:
    """Decode an AdmissionReview. Raises Unreadable."""
    try:
        review = _review.decode(body)
    except _UNREADABLE as error:
        raise Unreadable(f"not an {KIND}: {_words(error)}") from error
    if (review.api_version, review.kind) != (API_VERSION, KIND):
        raise Unreadable(f"{review.api_version[:64]}, {review.kind[:64]} is not {API_VERSION}, {KIND}")
    return review


def read_uid(body: bytes) -> str:
    """Return the uid of a review that is otherwise unreadable; empty if it has none."""
    try:
        uid = _uid.decode(body).request.uid
    except _UNREADABLE:
        return ""
    return uid if len(uid) <= _LONGEST_UID else ""


def read_object(raw: msgspec.Raw, kind: type[T], what: str) -> T:
    """Decode an object of a review. Raises Unreadable."""
    if kind not in _decoders:
        _decoders[kind] = msgspec.json.Decoder(kind)
    try:
        return cast(T, _decoders[kind].decode(raw))
    except _UNREADABLE as error:
        raise Unreadable(f"{what}: {_words(error)}") from error


def _words(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)[:512]


def read_key(meta: ReviewedMeta, namespace: str, name: str = "") -> ObjectKey:
    """Namespace and name of an object. An object without a name yet has its generateName."""
    return ObjectKey(namespace or meta.namespace or "", name or meta.name or meta.generate_name or "")


def read_pod(raw: ReviewedPod, namespace: str) -> AdmissionPod:
    """A pod's facts. Raises Unreadable."""
    spec = raw.spec
    return AdmissionPod(
        key=read_key(raw.metadata, namespace),
        annotations=raw.metadata.annotations or {},
        scheduler=spec.scheduler_name or "",
        node=spec.node_name or "",
        node_selector=spec.node_selector or {},
        tolerated=tuple(one.key or "" for one in spec.tolerations or () if _tolerates_all(one)),
        tolerates_leased=confinement.tolerates_leased(spec),
        keeps_off_leased=confinement.keeps_off_leased(spec),
        asks_for_gpus=confinement.asks_for_gpus(raw),
        smart=is_smart_pod(raw.metadata.labels or {}),
        loopholes=tuple(confinement.loopholes(raw)),
        containers=(
            *_containers(ContainerRole.INIT, spec.init_containers or ()),
            *_containers(ContainerRole.APP, spec.containers or ()),
            *_containers(ContainerRole.EPHEMERAL, spec.ephemeral_containers or ()),
        ),
    )


def _tolerates_all(one: ReviewedToleration) -> bool:
    return one.operator == "Exists" and one.effect in (None, "", "NoSchedule")


def _containers(role: ContainerRole, raw: Iterable[ReviewedContainer]) -> Iterator[AdmissionContainer]:
    for index, one in enumerate(raw):
        stays = role is ContainerRole.INIT and one.restart_policy == "Always"
        yield AdmissionContainer(
            spot=ContainerPath(ContainerRole.SIDECAR if stays else role, index),
            name=one.name,
            env=tuple([_variable(entry) for entry in one.env or ()]),
            gpus_milli=Milli(_gpus(one.resources, f"spec.{_LIST_OF[role]}[{index}]")),
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
    """Encode the review with its response. `pod` is the pod that the changes patch."""
    return encode(AnsweredReview(api_version=API_VERSION, kind=KIND, response=_response(uid, judgement, pod)))


def _response(uid: str, judgement: Judgement, pod: ReviewedPod | None) -> AdmissionAnswer:
    if isinstance(judgement, AdmissionDenied):
        code, reason = _CODES.get(judgement.reason, (422, "Invalid"))
        status = AnswerStatus(code=code, reason=reason, message=f"{judgement.reason}: {judgement.message}")
        return AdmissionAnswer(uid=uid, allowed=False, status=status)
    warnings = tuple(text[:_LONGEST_WARNING] for text in judgement.warnings)
    if pod is None or not judgement.changes:
        return AdmissionAnswer(uid=uid, allowed=True, warnings=warnings)
    patch = encode(json_patch(judgement.changes, pod))
    return AdmissionAnswer(uid=uid, allowed=True, patch_type="JSONPatch", patch=patch, warnings=warnings)


def refusal_status(code: int, reason: str, message: str) -> bytes:
    """Encode a Status, the response to a body that is no review."""
    body = {"apiVersion": "v1", "kind": "Status", "status": "Failure"}
    return encode(body | {"code": code, "reason": reason, "message": message})


def json_patch(changes: Iterable[PodChange], pod: ReviewedPod) -> list[JsonObject]:
    """Return the changes as a JSON patch (RFC 6902)."""
    return [operation for change in changes for operation in _operations(change, pod)]


def _operations(change: PodChange, pod: ReviewedPod) -> Iterator[JsonObject]:
    match change:
        case DropAnnotation(key):
            yield {"op": "remove", "path": f"/metadata/annotations/{_escaped(key)}"}
        case SetScheduler(name):
            yield _add("/spec/schedulerName", name)
        case AddTolerations(keys):
            added = [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in keys]
            if pod.spec.tolerations:
                yield from (_add("/spec/tolerations/-", one) for one in added)
            else:
                yield _add("/spec/tolerations", added)
        case AddNodeSelector(key, value):
            if pod.spec.node_selector is None:
                yield _add("/spec/nodeSelector", {key: value})
            else:
                yield _add(f"/spec/nodeSelector/{_escaped(key)}", value)
        case AvoidNodes(key, value):
            yield from _avoiding({"key": key, "operator": "NotIn", "values": [value]}, pod.spec)
        case SetEnv(spot, drop, put):
            yield from _env_operations(_path(spot), _container(pod, spot), drop, put)
        case RequestGpus(spot, count):
            yield from _resource_operations(_path(spot), _container(pod, spot).resources, count)


def _avoiding(expression: JsonObject, spec: ReviewedPodSpec) -> Iterator[JsonObject]:
    """Add the expression to each required node affinity term; without terms, add a term with it."""
    path = "/spec/affinity"
    terms = confinement.node_terms(spec)
    for place, term in enumerate(terms):
        if confinement.says_something(term):
            where = f"{path}/nodeAffinity/{_REQUIRED}/nodeSelectorTerms/{place}/matchExpressions"
            yield _add_item(where, expression, there=bool(term.match_expressions), at="-")
    if terms:
        return
    required: JsonObject = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    if spec.affinity is None:
        yield _add(path, {"nodeAffinity": {_REQUIRED: required}})
    elif spec.affinity.node_affinity is None:
        yield _add(f"{path}/nodeAffinity", {_REQUIRED: required})
    else:
        yield _add(f"{path}/nodeAffinity/{_REQUIRED}", required)


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
    """Set requests and limits of GPUs, which Kubernetes requires to be equal."""
    if resources is None:
        yield _add(f"{path}/resources", {"requests": {GPU: str(count)}, "limits": {GPU: str(count)}})
        return
    there: Mapping[str, object] = {"requests": resources.requests, "limits": resources.limits}
    for name, amounts in there.items():
        if amounts is None:
            yield _add(f"{path}/resources/{name}", {GPU: str(count)})
        else:
            yield _add(f"{path}/resources/{name}/{_escaped(GPU)}", str(count))


def _container(pod: ReviewedPod, spot: ContainerPath) -> ReviewedContainer:
    lists = {
        "initContainers": pod.spec.init_containers,
        "containers": pod.spec.containers,
        "ephemeralContainers": pod.spec.ephemeral_containers,
    }
    return (lists[_LIST_OF[spot.role]] or ())[spot.index]


def _path(spot: ContainerPath) -> str:
    return f"/spec/{_LIST_OF[spot.role]}/{spot.index}"


def _add(path: str, value: object) -> JsonObject:
    """Return an add operation of RFC 6902, which also replaces an existing value."""
    return {"op": "add", "path": path, "value": value}


def _add_item(path: str, value: object, *, there: bool, at: str) -> JsonObject:
    return _add(f"{path}/{at}", value) if there else _add(path, [value])


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
