"""A client with nothing in between: requests as JSON, answers as JSON, and a clock that is set by hand."""

import json
from dataclasses import dataclass
from typing import Any

from ullage.clock import Instant
from ullage.kube.client.transport import Request, Response
from ullage.model.units import Steady
from ullage.sim.apiserver.server import SimulatedApiServer
from ullage.sim.apiserver.storage.watchers import Watcher

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class HandClock:
    """Time stands still until somebody moves it."""

    def __init__(self, start: float = 1_767_225_600.0) -> None:
        self.moment = start

    def now(self) -> Instant:
        return Instant(self.moment)

    def steady(self) -> Steady:
        return Steady(self.moment)

    async def charge(self, cpu_seconds: float) -> None:
        self.moment += cpu_seconds


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: Any
    retry_after: float | None = None

    @property
    def message(self) -> str:
        return str(self.body["message"])

    @property
    def causes(self) -> list[tuple[str, str]]:
        return [(cause.get("field", ""), cause["reason"]) for cause in self.body["details"]["causes"]]


class Client:
    """One user of one server."""

    def __init__(self, server: SimulatedApiServer, user: str = "me") -> None:
        self.server = server
        self.user = user

    def ask(self, method: str, path: str, body: Any = None, kind: str = "application/json", **query: str) -> Answer:
        sent = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        response = self.server.handle(Request(method, path, query, sent, kind), self.user)
        return answer_of(response)

    def post(self, path: str, body: Any, **query: str) -> Answer:
        return self.ask("POST", path, body, **query)

    def get(self, path: str, **query: str) -> Answer:
        return self.ask("GET", path, **query)

    def merge(self, path: str, body: Any, **query: str) -> Answer:
        return self.ask("PATCH", path, body, MERGE, **query)

    def apply(self, path: str, body: Any, manager: str, **query: str) -> Answer:
        return self.ask("PATCH", path, body, APPLY, fieldManager=manager, **query)

    def delete(self, path: str, body: Any = None, **query: str) -> Answer:
        return self.ask("DELETE", path, body, **query)

    def watch(self, path: str, **query: str) -> Watcher:
        opened = self.server.open_watch(Request("GET", path, {"watch": "1", **query}), self.user)
        assert isinstance(opened, Watcher), opened
        return opened

    def refused_watch(self, path: str, **query: str) -> Answer:
        opened = self.server.open_watch(Request("GET", path, {"watch": "1", **query}), self.user)
        assert isinstance(opened, Response)
        return answer_of(opened)


def answer_of(response: Response) -> Answer:
    try:
        body = json.loads(response.body)
    except ValueError:
        body = response.body.decode()
    return Answer(response.status, body, response.retry_after)


def events(watcher: Watcher, now: float = 0.0) -> list[tuple[str, Any]]:
    """Type and object of every line there is."""
    lines = [json.loads(line) for line in watcher.take(now)]
    return [(line["type"], line["object"]) for line in lines]


def a_definition(schema: dict[str, Any], **version: Any) -> dict[str, Any]:
    """Widgets of `example.dev`, with one version of that schema."""
    root = {"type": "object", "properties": {"spec": schema, "status": {"type": "object", "properties": {}}}}
    served = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": root}, **version}
    names = {"plural": "widgets", "kind": "Widget"}
    spec = {"group": "example.dev", "scope": "Namespaced", "names": names, "versions": [served]}
    return {"metadata": {"name": "widgets.example.dev"}, "spec": spec}


WIDGETS = "/apis/example.dev/v1/namespaces/default/widgets"


def a_widget(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}
