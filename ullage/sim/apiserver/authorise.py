"""Who may do what: a question asked before every request, answered yes unless somebody says otherwise."""

from collections.abc import Callable
from dataclasses import dataclass

from ullage.sim.apiserver.refusal import Refusal, forbidden
from ullage.sim.apiserver.registry import Target

ADMIN = "system:admin"


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as an authoriser sees it."""

    user: str
    verb: str
    resource: str
    """`pods`, `pods/binding`, `leases.coordination.k8s.io`."""
    namespace: str
    name: str


Authoriser = Callable[[Asked], bool]


def everybody_may(_asked: Asked) -> bool:
    return True


def asked_by(user: str, verb: str, target: Target) -> Asked:
    part = f"/{target.subresource}" if target.subresource else ""
    return Asked(user, verb, target.kind.id + part, target.namespace, target.name)


def refused(asked: Asked, target: Target) -> Refusal:
    """As RBAC words it."""
    kind = target.kind
    resource = f"{kind.plural}/{target.subresource}" if target.subresource else kind.plural
    where = f'in the namespace "{target.namespace}"' if target.namespace else "at the cluster scope"
    why = f'User "{asked.user}" cannot {asked.verb} resource "{resource}" in API group "{kind.group}" {where}'
    return forbidden(kind.about(target.name), why)
