"""Callers of the VM servers: who a bearer token belongs to, and what it may do. Answers of the API server are cached.

An agent is a pod of the agents' ServiceAccount; its token says on which node it runs. A token is never logged, and only
its digest is kept.
"""

import asyncio
import base64
import binascii
import hashlib
from dataclasses import dataclass

import msgspec
import structlog

from ullage import errors
from ullage.clock import Clock
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resource import JsonObject, Resource
from ullage.model.units import Seconds

TOKEN_REVIEWS = Resource[JsonObject]("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", False, dict)
ACCESS_REVIEWS = Resource[JsonObject](
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False, dict
)
NODE_NAME = "authentication.kubernetes.io/node-name"
MOST_TOKENS = 10_000
"""Tokens remembered; beyond it the oldest are forgotten."""
_REFUSED_FOR = Seconds(5.0)
"""Seconds a token that was refused is not asked about again."""
_RENEWED_AFTER = 0.75
"""Part of the time an answer is believed after which it is asked for again, while requests go on."""
_LONGEST_TOKEN = 16_384
_SCHEME = "bearer "
_log = structlog.get_logger("vms")


@dataclass(frozen=True, slots=True)
class Caller:
    """User of a token, and the node its pod runs on; empty for tokens that are bound to none."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    node: str = ""


@dataclass(frozen=True, slots=True)
class CallerRefused:
    """HTTP status and text for a caller that is not answered."""

    status: int
    text: str


NO_TOKEN = CallerRefused(401, "a ServiceAccount token is needed")
BAD_TOKEN = CallerRefused(401, "the token is not valid")
NOT_CHECKED = CallerRefused(503, "the token cannot be checked now")
NOT_AN_AGENT = CallerRefused(403, "the token does not belong to a VM agent")
NO_NODE = CallerRefused(403, "the token is not bound to a node")
NOT_ALLOWED = CallerRefused(403, "not allowed to get /state")


@dataclass(frozen=True, slots=True)
class _Known:
    """Answer about one token, by the steady clock: a wall clock that jumps back must not make it last."""

    caller: Caller | CallerRefused
    renew: float
    ends: float


class TokenCallers:
    """Callers by their bearer tokens. The API server is asked about each token once at a time."""

    def __init__(self, api: KubeApi, clock: Clock, *, agent_account: str, believed: float) -> None:
        """`agent_account` is NAMESPACE/NAME; `believed`: seconds an answer of the API server is kept."""
        namespace, _, name = agent_account.partition("/")
        self._agent = f"system:serviceaccount:{namespace}:{name}"
        self._api = api
        self._clock = clock
        self._believed = believed
        self._known: dict[bytes, _Known] = {}
        self._reviews: dict[bytes, asyncio.Task[Caller | CallerRefused]] = {}

    async def agent_node(self, authorization: str | None) -> str | CallerRefused:
        """Node of the agent that sends this header."""
        caller = await self._caller(authorization)
        if isinstance(caller, CallerRefused):
            return caller
        if caller.user != self._agent:
            return NOT_AN_AGENT
        return caller.node or NO_NODE

    async def may_read_state(self, authorization: str | None) -> CallerRefused | None:
        """None if the caller may get /state."""
        caller = await self._caller(authorization)
        if isinstance(caller, CallerRefused):
            return caller
        spec = {
            "user": caller.user,
            "uid": caller.uid,
            "groups": list(caller.groups),
            "nonResourceAttributes": {"path": "/state", "verb": "get"},
        }
        try:
            review = await self._api.create(ACCESS_REVIEWS, {"spec": spec})
        except errors.ApiError:
            return NOT_CHECKED
        return None if review.get("status", {}).get("allowed") is True else NOT_ALLOWED

    async def _caller(self, authorization: str | None) -> Caller | CallerRefused:
        if not authorization or not authorization.lower().startswith(_SCHEME):
            return NO_TOKEN
        token = authorization[len(_SCHEME) :].strip()
        if not token or len(token) > _LONGEST_TOKEN:
            return NO_TOKEN
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        known, now = self._known.get(digest), self._clock.steady()
        if known is None or now >= known.ends:
            return await asyncio.shield(self._review(token, digest))
        if now >= known.renew:
            self._review(token, digest)
        return known.caller

    def _review(self, token: str, digest: bytes) -> "asyncio.Task[Caller | CallerRefused]":
        """The review of this token that is under way."""
        review = self._reviews.get(digest)
        if review is None:
            review = self._reviews[digest] = asyncio.create_task(self._reviewed(token, digest), name="token review")
            review.add_done_callback(lambda ended: self._review_ended(digest, ended))
        return review

    def _review_ended(self, digest: bytes, review: "asyncio.Task[Caller | CallerRefused]") -> None:
        del self._reviews[digest]
        if not review.cancelled() and review.exception() is not None:
            _log.debug("token not reviewed", error=str(review.exception()))  # raised by those who wait for it

    async def _reviewed(self, token: str, digest: bytes) -> Caller | CallerRefused:
        try:
            review = await self._api.create(TOKEN_REVIEWS, {"spec": {"token": token}})
        except errors.ApiError:
            return NOT_CHECKED
        caller = _read(review)
        lasts = _REFUSED_FOR
        if isinstance(caller, Caller):
            lasts = Seconds(min(self._believed, max(0.0, _expiry(token) - self._clock.now())))
        while len(self._known) >= MOST_TOKENS:
            del self._known[next(iter(self._known))]
        self._known.pop(digest, None)
        now = self._clock.steady()
        self._known[digest] = _Known(caller, now + lasts * _RENEWED_AFTER, now + lasts)
        return caller


def _read(review: JsonObject) -> Caller | CallerRefused:
    status = review.get("status") or {}
    user = status.get("user") or {}
    if status.get("authenticated") is not True or not user.get("username"):
        return BAD_TOKEN
    nodes = (user.get("extra") or {}).get(NODE_NAME) or [""]
    return Caller(user["username"], user.get("uid", ""), tuple(user.get("groups") or ()), nodes[0])


def _expiry(token: str) -> float:
    """Instant at which a token ends, by its own claim. The API server has checked it; one without it lasts."""
    try:
        _, payload, _ = token.split(".")
        claims = msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return float(claims["exp"])
    except (ValueError, KeyError, TypeError, binascii.Error, msgspec.DecodeError):
        return float("inf")
