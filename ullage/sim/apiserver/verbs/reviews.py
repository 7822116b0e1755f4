"""POST of access reviews: the caller's identity and permissions. Answered, and not stored."""

from ullage.kube.client.transport import Response
from ullage.sim.apiserver.request.api_call import ApiCall
from ullage.sim.apiserver.request.authorization import Authoriser, AuthorizationRequest
from ullage.sim.apiserver.request.field_errors import FieldError, required, wrong
from ullage.sim.apiserver.request.status_errors import invalid, method_not_allowed
from ullage.sim.apiserver.storage.context import ServerContext
from ullage.sim.apiserver.storage.json_bytes import JsonObject, encode

ANSWERED = (
    "selfsubjectaccessreviews.authorization.k8s.io",
    "localsubjectaccessreviews.authorization.k8s.io",
    "subjectaccessreviews.authorization.k8s.io",
    "selfsubjectrulesreviews.authorization.k8s.io",
    "selfsubjectreviews.authentication.k8s.io",
)
_EVERYTHING = ["*"]


def review(call: ApiCall, world: ServerContext, authorise: Authoriser) -> Response:
    """The review with its answer in `status`. Raises StatusError if it asks nothing."""
    if call.request.method != "POST" or call.target.name:
        raise method_not_allowed()
    said = call.body()
    metadata = {"creationTimestamp": world.timestamp()} if call.kind.plural == "selfsubjectreviews" else {}
    spec = said.get("spec") or {}
    match call.kind.plural:
        case "selfsubjectreviews":
            status: JsonObject = {"userInfo": {"username": call.user, "groups": ["system:authenticated"]}}
        case "selfsubjectrulesreviews":
            status = _rules(call.user, spec.get("namespace") or "", authorise)
        case "selfsubjectaccessreviews":
            status = {"allowed": _allowed(call, spec, call.user, authorise)}
        case _:
            status = {"allowed": _allowed(call, spec, spec.get("user") or "", authorise)}
    body = {"kind": call.kind.kind, "apiVersion": call.kind.api_version, "metadata": metadata}
    if spec:
        body["spec"] = spec
    return Response(201, encode({**body, "status": status}))


def _allowed(call: ApiCall, spec: JsonObject, user: str, authorise: Authoriser) -> bool:
    errors = _wrong(call, spec)
    if errors:
        raise invalid(call.kind.about_kind(""), errors)
    asked = spec.get("resourceAttributes")
    if not asked:
        return authorise(AuthorizationRequest(user, spec["nonResourceAttributes"].get("verb", ""), "", "", ""))
    resource = asked.get("resource") or "*"
    if asked.get("group"):
        resource += f".{asked['group']}"
    if asked.get("subresource"):
        resource += f"/{asked['subresource']}"
    question = AuthorizationRequest(
        user, asked.get("verb", ""), resource, asked.get("namespace", ""), asked.get("name", "")
    )
    return authorise(question)


def _wrong(call: ApiCall, spec: JsonObject) -> list[FieldError]:
    about, beside = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    found: list[FieldError] = []
    if about and beside:
        why = "cannot be specified in combination with resourceAttributes"
        found.append(wrong("spec.nonResourceAttributes", beside, why))
    if not about and not beside:
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        found.append(wrong("spec.resourceAttributes", None, why))
    if not call.kind.plural.startswith("self") and not spec.get("user") and not spec.get("groups"):
        found.append(required("spec.user", "at least one of user or group must be specified"))
    return found


def _rules(user: str, namespace: str, authorise: Authoriser) -> JsonObject:
    """Rules of a user: everything for a user who may do everything, else an incomplete answer without a list."""
    if authorise(AuthorizationRequest(user, "*", "*", namespace, "")):
        return {
            "resourceRules": [{"verbs": _EVERYTHING, "apiGroups": _EVERYTHING, "resources": _EVERYTHING}],
            "nonResourceRules": [{"verbs": _EVERYTHING, "nonResourceURLs": _EVERYTHING}],
            "incomplete": False,
        }
    why = "the simulated authoriser answers questions, and does not list its rules"
    return {"resourceRules": [], "nonResourceRules": [], "incomplete": True, "evaluationError": why}
