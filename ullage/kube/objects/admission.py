"""AdmissionReview as the API server sends it, and pods as a user wrote them: the fields that the webhook reads.

Lists may be null where Go had none. Objects inside a review stay raw until it is known what they are.
"""

from msgspec import Raw, field

from ullage.kube.objects import KubeStruct
from ullage.kube.objects.gpu import GpuClaimSpec, GpuClaimStatus

Strings = dict[str, str]
NOTHING = Raw(b"null")


class ResourceName(KubeStruct, frozen=True, gc=False, kw_only=True):
    group: str = ""
    version: str = ""
    resource: str = ""


class UserInfo(KubeStruct, frozen=True, gc=False, kw_only=True):
    username: str = ""


class AdmissionRequest(KubeStruct, frozen=True, gc=False, kw_only=True):
    """One operation on an object that the API server asks to admit, with the user who requested it."""

    uid: str
    resource: ResourceName = field(default_factory=ResourceName)
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    operation: str = ""
    user_info: UserInfo = field(default_factory=UserInfo)
    object: Raw = NOTHING
    old_object: Raw = NOTHING


class AdmissionReview(KubeStruct, frozen=True, gc=False, kw_only=True):
    api_version: str
    kind: str
    request: AdmissionRequest


class RequestUid(KubeStruct, frozen=True, gc=False, kw_only=True):
    uid: str


class ReviewUid(KubeStruct, frozen=True, gc=False, kw_only=True):
    """A review of which nothing but the uid makes sense."""

    request: RequestUid


class ReviewedMeta(KubeStruct, frozen=True, gc=False, kw_only=True):
    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    labels: Strings | None = None
    annotations: Strings | None = None


class FieldReference(KubeStruct, frozen=True, gc=False, kw_only=True):
    field_path: str = ""


class ValueSource(KubeStruct, frozen=True, gc=False, kw_only=True):
    field_ref: FieldReference | None = None


class EnvEntry(KubeStruct, frozen=True, gc=False, kw_only=True):
    name: str = ""
    value: str | None = None
    value_from: ValueSource | None = None


class ReviewedResources(KubeStruct, frozen=True, gc=False, kw_only=True):
    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None


class ReviewedSecurity(KubeStruct, frozen=True, gc=False, kw_only=True):
    privileged: bool | None = None


class ReviewedMount(KubeStruct, frozen=True, gc=False, kw_only=True):
    mount_path: str = ""


class ReviewedContainer(KubeStruct, frozen=True, gc=False, kw_only=True):
    name: str = ""
    env: tuple[EnvEntry, ...] | None = None
    resources: ReviewedResources | None = None
    restart_policy: str | None = None
    security_context: ReviewedSecurity | None = None
    volume_mounts: tuple[ReviewedMount, ...] | None = None


class HostPath(KubeStruct, frozen=True, gc=False, kw_only=True):
    path: str = ""


class ReviewedVolume(KubeStruct, frozen=True, gc=False, kw_only=True):
    name: str = ""
    host_path: HostPath | None = None


class ReviewedToleration(KubeStruct, frozen=True, gc=False, kw_only=True):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class ReviewedExpression(KubeStruct, frozen=True, gc=False, kw_only=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class ReviewedNodeTerm(KubeStruct, frozen=True, gc=False, kw_only=True):
    match_expressions: tuple[ReviewedExpression, ...] | None = None
    match_fields: tuple[ReviewedExpression, ...] | None = None


class ReviewedNodeTerms(KubeStruct, frozen=True, gc=False, kw_only=True):
    node_selector_terms: tuple[ReviewedNodeTerm, ...] | None = None


class ReviewedNodeAffinity(KubeStruct, frozen=True, gc=False, kw_only=True):
    required: ReviewedNodeTerms | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class ReviewedAffinity(KubeStruct, frozen=True, gc=False, kw_only=True):
    node_affinity: ReviewedNodeAffinity | None = None


class ReviewedPodSpec(KubeStruct, frozen=True, gc=False, kw_only=True):
    scheduler_name: str | None = None
    node_name: str | None = None
    node_selector: Strings | None = None
    tolerations: tuple[ReviewedToleration, ...] | None = None
    affinity: ReviewedAffinity | None = None
    volumes: tuple[ReviewedVolume, ...] | None = None
    init_containers: tuple[ReviewedContainer, ...] | None = None
    containers: tuple[ReviewedContainer, ...] | None = None
    ephemeral_containers: tuple[ReviewedContainer, ...] | None = None


class ReviewedPod(KubeStruct, frozen=True, gc=False, kw_only=True):
    metadata: ReviewedMeta = field(default_factory=ReviewedMeta)
    spec: ReviewedPodSpec = field(default_factory=ReviewedPodSpec)


class ReviewedObject(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Anything, of which only the metadata matters: Bindings, and pods that change."""

    metadata: ReviewedMeta = field(default_factory=ReviewedMeta)


class ReviewedClaim(KubeStruct, frozen=True, gc=False, kw_only=True):
    """A GpuClaim whose spec has not been validated."""

    metadata: ReviewedMeta = field(default_factory=ReviewedMeta)
    spec: GpuClaimSpec = field(default_factory=GpuClaimSpec)
    status: GpuClaimStatus = field(default_factory=GpuClaimStatus)


class AnswerStatus(KubeStruct, frozen=True, gc=False, kw_only=True):
    code: int
    reason: str
    message: str


class AdmissionAnswer(KubeStruct, frozen=True, gc=False, kw_only=True):
    uid: str
    allowed: bool = field()
    status: AnswerStatus | None = None
    patch_type: str | None = None
    patch: bytes | None = None
    warnings: tuple[str, ...] = ()


class AnsweredReview(KubeStruct, frozen=True, gc=False, kw_only=True):
    api_version: str = field()
    kind: str = field()
    response: AdmissionAnswer
