"""API server in memory: (method, path, query, content type, body) to (status, JSON), and watches.

Synchronous: a request is handled whole, in one step, at one instant of the injected clock. Everything that waits, is
slow, or fails lives in `transport`.
"""

import random
from collections.abc import Callable
from dataclasses import replace

from ullage.clock import Clock
from ullage.kube.client.transport import Request, Response
from ullage.sim.apiserver.kinds.custom_kinds import CustomKinds
from ullage.sim.apiserver.kinds.registry import KindRegistry, NoSuchPath, RequestTarget
from ullage.sim.apiserver.openapi.document import describe
from ullage.sim.apiserver.request.admission import AdmissionChain
from ullage.sim.apiserver.request.api_call import ApiCall
from ullage.sim.apiserver.request.authorization import ADMIN, Authoriser, asked_by, everybody_may, refused
from ullage.sim.apiserver.request.discovery import discover
from ullage.sim.apiserver.request.negotiation import dress_of, dressed, wanted
from ullage.sim.apiserver.request.status_errors import StatusError, method_not_allowed, no_containers
from ullage.sim.apiserver.rules.builtin import builtin_kinds
from ullage.sim.apiserver.storage.context import ServerContext
from ullage.sim.apiserver.storage.json_bytes import JsonObject
from ullage.sim.apiserver.storage.restoring import restore_object
from ullage.sim.apiserver.storage.seeding import seed_cluster
from ullage.sim.apiserver.storage.store import Listener, Store
from ullage.sim.apiserver.storage.watchers import Watcher
from ullage.sim.apiserver.verbs import (
    binding,
    create,
    delete,
    evict,
    finalize,
    get_list,
    metrics,
    patch,
    reviews,
    scale,
    update,
)
from ullage.sim.apiserver.verbs.watch import open_watch

_NOT_A_PATH = Response(404, b"404 page not found\n", content_type="text/plain; charset=utf-8")
_LEAST_WATCH_SECONDS = 1800.0
_NEEDS_CONTAINERS = ("attach", "exec", "log", "portforward")


class SimulatedApiServer:
    """kube-apiserver's semantics without etcd, sockets or threads. Deterministic for a seed and a clock."""

    def __init__(
        self,
        clock: Clock,
        seed: int = 0,
        *,
        history: int = 10_000,
        watch_buffer: int = 1_000,
        authorise: Authoriser = everybody_may,
    ) -> None:
        """`history` changes are kept per resource; a watcher that lets `watch_buffer` lines pile up is closed."""
        chance = random.Random(seed)
        self._world = ServerContext(Store(history), clock, chance)
        self._registry = KindRegistry(builtin_kinds())
        self._authorise = authorise
        self._watch_buffer = watch_buffer
        self._custom = CustomKinds(self._registry, self._world)
        self._started = False
        self.caller = ADMIN
        """User of the request being handled, or of the last one; read by listeners."""

    def _start(self) -> None:
        """At the first request: a clock bound to an event loop can be asked only once that loop runs."""
        self._started = True
        seed_cluster(self._world, self._registry)

    def post(self, gate: Callable[[ServerContext], AdmissionChain]) -> None:
        """Set the admission chain: every create and update passes it from now on, as with admission webhooks."""
        self._world.gate = gate(self._world)

    def restore(self, manifest: JsonObject) -> None:
        """Store an object of another cluster as it was there, identity, times and status included."""
        if not self._started:
            self._start()
        restore_object(self._world, self._registry, manifest)

    def listen(self, place: str, listener: Listener) -> Callable[[], None]:
        """Call back on every change of a resource (`pods`, `leases.coordination.k8s.io`); the result ends that."""
        return self._world.store.shelf(place).listen(listener)

    def serve_metrics(self) -> None:
        """Serve metrics.k8s.io from now on, as a cluster with metrics-server does: `kubectl top` works."""
        for kind in metrics.METRICS_KINDS:
            self._registry.add(kind)

    def account_from_birth(self) -> None:
        """From now on every write says whose its fields are, as users of kubectl expect; it costs each write time."""
        self._world.accounts_from_birth = True

    @property
    def revision(self) -> int:
        """The resourceVersion of the latest write."""
        return self._world.store.revision

    def compact(self) -> int:
        """Forget all history: watches and list continuations from before now get 410."""
        return self._world.store.compact()

    def now(self) -> float:
        return self._world.now()

    def handle(self, request: Request, user: str = ADMIN) -> Response:
        """Handle any request but a watch."""
        if not self._started:
            self._start()
        self.caller = user
        try:
            if request.method == "GET" and (found := self._describe(request)) is not None:
                return found
            target = self._registry.resolve(request.path)
            self._check_allowed(user, _verb(request, target), target)
            call = ApiCall(target, request, user)
            wanted(request)
            response = self._dispatch(call)
            self._custom.settle()
            if call.warnings:
                response = replace(response, warnings=tuple(call.warnings))
            return dressed(call, response, self._world.now)
        except NoSuchPath:
            return _NOT_A_PATH
        except StatusError as refusal:
            return refusal.response()

    def open_watch(self, request: Request, user: str = ADMIN) -> Watcher | Response:
        """A watcher that receives changes from now on, or the error response."""
        if not self._started:
            self._start()
        try:
            target = self._registry.resolve(request.path)
            self._check_allowed(user, "watch", target)
            call = ApiCall(target, request, user)
            dress = dress_of(call, self._world.now)
            now, chance = self._world.now(), self._world.random
            lasts = lambda: _LEAST_WATCH_SECONDS * (1 + chance.random())  # noqa: E731 - drawn only where asked
            watcher = open_watch(call, self._world.store, now=now, lasts=lasts, buffer=self._watch_buffer)
            watcher.dress = dress
        except NoSuchPath:
            return _NOT_A_PATH
        except StatusError as refusal:
            return refusal.response()
        self._custom.attach(target.kind, watcher)
        return watcher

    def _describe(self, request: Request) -> Response | None:
        """Discovery and OpenAPI documents, which need no authorization."""
        return discover(request, self._registry) or describe(request, self._registry)

    def _check_allowed(self, user: str, verb: str, target: RequestTarget) -> None:
        if target.kind.id in reviews.ANSWERED:
            return
        asked = asked_by(user, verb, target)
        if not self._authorise(asked):
            raise refused(asked, target)

    def _dispatch(self, call: ApiCall) -> Response:
        if call.target.subresource in _NEEDS_CONTAINERS:
            raise no_containers(call.target.subresource)
        if (computed := self._computed(call)) is not None:
            return computed
        match call.request.method, bool(call.target.name), call.target.subresource:
            case "GET", True, "scale":
                return scale.read_scale(call, self._world)
            case "GET", True, "" | "status":
                return get_list.get(call, self._world.store)
            case "GET", False, _:
                return get_list.list_objects(call, self._world.store)
            case "DELETE", True, "":
                return delete.delete(call, self._world)
            case "DELETE", False, _:
                return delete.delete_collection(call, self._world)
            case "POST", _, _:
                return self._post(call)
            case "PUT" | "PATCH", True, _:
                return self._change(call)
            case _:
                raise method_not_allowed()

    def _computed(self, call: ApiCall) -> Response | None:
        """Answer of a kind that is not stored; None for all others."""
        if call.kind.group == metrics.GROUP:
            return metrics.read_metrics(call, self._world)
        if call.kind.id in reviews.ANSWERED:
            return reviews.review(call, self._world, self._authorise)
        return None

    def _post(self, call: ApiCall) -> Response:
        match bool(call.target.name), call.target.subresource:
            case False, _:
                return create.create(call, self._world)
            case True, "binding":
                return binding.bind(call, self._world)
            case True, "eviction":
                return evict.evict(call, self._world)
            case _:
                raise method_not_allowed()

    def _change(self, call: ApiCall) -> Response:
        match call.request.method, call.target.subresource:
            case _, "scale":
                return scale.write_scale(call, self._world)
            case "PUT", "finalize":
                return finalize.finalize(call, self._world)
            case _, "finalize" | "binding" | "eviction":
                raise method_not_allowed()
            case "PUT", _:
                return update.replace(call, self._world)
            case _:
                return patch.patch(call, self._world)


def is_watch(request: Request) -> bool:
    """True if this GET asks for a watch."""
    return request.method == "GET" and request.query.get("watch", "").lower() in ("true", "1", "t")


def _verb(request: Request, target: RequestTarget) -> str:
    """Verb of a request, as authorisers name it."""
    named = bool(target.name)
    match request.method:
        case "GET":
            return "get" if named else "list"
        case "DELETE":
            return "delete" if named else "deletecollection"
        case "POST":
            return "create"
        case "PUT":
            return "update"
        case _:
            return "patch"
