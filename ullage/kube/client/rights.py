"""Rights that the API server denies, each told once, and once more when it is there again.

Callers answer a 403 in their own ways, and some only by trying again: what is missing would not be told anywhere. Lists
and watches are left out: informers tell of theirs.
"""

import re
from collections.abc import AsyncIterator, Callable, Sequence

from ullage.kube.client import status_errors
from ullage.kube.client.transport import Request, Response, Transport

_FAILED, _FORBIDDEN = 400, 403
_REFUSED = (_FORBIDDEN, 422)
"""A right that is asked for within a request, as `resourceclaims/binding` is, makes that request invalid."""
_BY_RBAC = re.compile(r'cannot (\w+) resource "([^"]+)" in API group "([^"]*)"')
"""Words of the authorizer. Webhooks, policies and quotas forbid in words of their own, and one object at a time."""
_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def right_of(request: Request) -> str:
    """Right a request needs, as roles write it (`create pods/binding`, `update leases.coordination.k8s.io`).

    Empty for lists and watches, and for paths that name no object.
    """
    parts = request.path.strip("/").split("/")
    group, rest = ("".join(parts[1:2]), parts[3:]) if parts[0] == "apis" else ("", parts[2:])
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    if not rest or (request.method == "GET" and len(rest) == 1):
        return ""
    return _written(_VERBS.get(request.method, request.method.lower()), "/".join((rest[0], *rest[2:])), group)


def _written(verb: str, resource: str, group: str) -> str:
    return f"{verb} {resource}{group and '.'}{group}"


class RightsTransport:
    """Transport that looks at answers. `missing` gets a right and the server's sentence, `regained` the right."""

    def __init__(
        self, inner: Transport, missing: Callable[[str, str], None], regained: Callable[[str], None] = lambda _: None
    ) -> None:
        self._inner = inner
        self._missing = missing
        self._regained = regained
        self._reported: dict[str, str] = {}
        """Missing rights, by the right of the request that was refused."""

    async def send(self, request: Request) -> Response:
        response = await self._inner.send(request)
        if response.status in _REFUSED:
            self._denied(request, response)
        elif self._reported and response.status < _FAILED and (right := self._reported.pop(right_of(request), "")):
            self._regained(right)
        return response

    def stream(self, request: Request) -> AsyncIterator[Sequence[bytes]]:
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()

    def _denied(self, request: Request, response: Response) -> None:
        asked = right_of(request)
        said = status_errors.from_response(response, asked).message
        named = _BY_RBAC.search(said)
        if asked and asked not in self._reported and named is not None:
            self._reported[asked] = _written(*named.groups())
            self._missing(self._reported[asked], said)
