"""Admission chain of the simulated API server that calls the webhook's own reviewer, as a real server would over TLS.

The reviewer never waits: its claim lookups are answered from the store, so a review is over in the step it began in,
and a write stays one step of the server.
"""

from base64 import b64decode
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from ullage.decide.admission.mutate import ClaimLookup
from ullage.decide.admission.policy import AdmissionPolicy
from ullage.errors import InvariantBroken, Unreadable
from ullage.kube.client.json_codec import decode_object
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import GPU_CLAIMS, PODS
from ullage.kube.read.gpu import read_claim
from ullage.model.allocation import CLAIM
from ullage.model.fact_event import ObjectKey
from ullage.sim.admission.matching import GUARDING, MUTATING, WebhookRule
from ullage.sim.apiserver import SimulatedApiServer
from ullage.sim.apiserver.merge.json_patches import apply_operations
from ullage.sim.apiserver.request.admission import AdmissionAttempt
from ullage.sim.apiserver.request.status_errors import StatusError
from ullage.sim.apiserver.storage.context import ServerContext
from ullage.sim.apiserver.storage.json_bytes import copied, decode, encode
from ullage.webhook.reviewer import AdmissionReviewer, ReviewAnswer

T = TypeVar("T")

_OVER = ("Succeeded", "Failed")


def post_webhook(
    server: SimulatedApiServer, policy: AdmissionPolicy, on_answer: Callable[[ReviewAnswer], None] = lambda _: None
) -> None:
    """From now on every write to this server passes the webhook with this policy. `on_answer` gets each answer."""
    server.post(lambda world: WebhookAdmission(world, policy, on_answer))


class WebhookAdmission:
    """Both configurations of the webhook, registered for good."""

    def __init__(
        self, world: ServerContext, policy: AdmissionPolicy, on_answer: Callable[[ReviewAnswer], None] = lambda _: None
    ) -> None:
        self._on_answer = on_answer
        self._identities = policy.identities
        self._reviewer = AdmissionReviewer(policy, _StoredClaims(world))
        self._asked = 0

    def changed(self, arrival: AdmissionAttempt) -> JsonObject:
        for hook in self._called(MUTATING, arrival):
            response = self._response(hook, self._reviewer.mutate(self._review(arrival)))
            if patch := response.get("patch"):
                return _patched(arrival.obj, decode(b64decode(patch)))
        return arrival.obj

    def check(self, arrival: AdmissionAttempt) -> None:
        for hook in self._called(GUARDING, arrival):
            self._response(hook, self._reviewer.validate(self._review(arrival)))

    def _called(self, hooks: Sequence[WebhookRule], arrival: AdmissionAttempt) -> Iterator[WebhookRule]:
        return (hook for hook in hooks if hook.is_asked(arrival, self._identities))

    def _review(self, arrival: AdmissionAttempt) -> bytes:
        self._asked += 1
        request: JsonObject = {
            "uid": f"review-{self._asked}",
            "resource": {"group": arrival.group, "version": "v1", "resource": arrival.plural},
            "subResource": arrival.part,
            "name": arrival.name,
            "namespace": arrival.namespace,
            "operation": arrival.operation,
            "userInfo": {"username": arrival.user},
            "object": arrival.obj,
        }
        if arrival.old is not None:
            request["oldObject"] = arrival.old
        return encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})

    def _response(self, hook: WebhookRule, asking: Coroutine[Any, Any, ReviewAnswer]) -> Mapping[str, Any]:
        """Response of the webhook. Raises StatusError, worded as the API server words it."""
        answered = _at_once(asking)
        self._on_answer(answered)
        body = decode(answered.body)
        if answered.code != 200:
            said = body.get("message", "")
            raise StatusError(500, "InternalError", f'failed calling webhook "{hook.name}": {said}', {})
        response: Mapping[str, Any] = body["response"]
        if response["allowed"]:
            return response
        status = response.get("status") or {}
        message = f'admission webhook "{hook.name}" denied the request: {status.get("message", "")}'
        raise StatusError(status.get("code", 403), status.get("reason", ""), message)


class _StoredClaims:
    """Claims and their holders for the reviewer, read from the server's own store."""

    def __init__(self, world: ServerContext) -> None:
        self._world = world

    async def find(self, key: ObjectKey) -> ClaimLookup:
        stored = self._world.find(GPU_CLAIMS.id, f"{key.namespace}/{key.name}")
        if stored is None:
            return ClaimLookup(trouble=f"GpuClaim {key} is not there")
        try:
            return ClaimLookup(read_claim(decode_object(GPU_CLAIMS, encode(stored), str(key))))
        except Unreadable as error:
            return ClaimLookup(trouble=error.message)

    async def holders(self, key: ObjectKey) -> Sequence[ObjectKey]:
        return [
            ObjectKey(key.namespace, pod["metadata"]["name"])
            for pod in self._world.all(PODS.id)
            if pod["metadata"]["namespace"] == key.namespace
            and (pod["metadata"].get("annotations") or {}).get(CLAIM) == key.name
            and pod["spec"].get("nodeName")
            and (pod.get("status") or {}).get("phase") not in _OVER
        ]


def _patched(obj: JsonObject, operations: Sequence[Any]) -> JsonObject:
    changed: JsonObject = apply_operations(copied(obj), operations)
    return changed


def _at_once(asking: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never has to wait."""
    try:
        asking.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    asking.close()
    raise InvariantBroken("a review waits for somebody, and nobody can come while the API server is in the middle")
