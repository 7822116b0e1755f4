"""Authorization, checked before every request. Everything is allowed unless an authoriser says otherwise."""

from collections.abc import Callable
from dataclasses import dataclass

from ullage.sim.apiserver.kinds.registry import RequestTarget
from ullage.sim.apiserver.request.status_errors import StatusError, forbidden

ADMIN = "system:admin"


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """One request as an authoriser sees it."""

    user: str
    verb: str
    resource: str
    """`pods`, `pods/binding`, `leases.coordination.k8s.io`."""
    namespace: str
    name: str


Authoriser = Callable[[AuthorizationRequest], bool]


def everybody_may(_asked: AuthorizationRequest) -> bool:
    return True


def asked_by(user: str, verb: str, target: RequestTarget) -> AuthorizationRequest:
    part = f"/{target.subresource}" if target.subresource else ""
    return AuthorizationRequest(user, verb, target.kind.id + part, target.namespace, target.name)


def refused(asked: AuthorizationRequest, target: RequestTarget) -> StatusError:
    """The refusal, worded as RBAC words it."""
    kind = target.kind
    resource = f"{kind.plural}/{target.subresource}" if target.subresource else kind.plural
    where = f'in the namespace "{target.namespace}"' if target.namespace else "at the cluster scope"
    why = f'User "{asked.user}" cannot {asked.verb} resource "{resource}" in API group "{kind.group}" {where}'
    return forbidden(kind.about(target.name), why)
