"""`CloudProvider`: the complete interface to a cloud. Small, typed, and safe to call again.

* `create` is idempotent by its token: called again, a provider makes nothing more and answers with what it made. It
  makes at least `least` instances (and at least one) or none at all.
* `delete` is idempotent by nature: an instance that is gone stays gone.
* `list` may be old, by at most `staleness` seconds. It never invents instances.
* Every failure is one of the errors below, which say what to do next. A provider raises nothing else.

`ullage.testing.cloud_contract` checks any provider for this.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from ullage.errors import UllageError
from ullage.model.instance import Instance
from ullage.model.provisioner import CloudFailure, NodeTemplate


class CloudError(UllageError):
    """Failed call of a cloud. `failure` says how to back off; it is None where the outcome is unknown."""

    failure: CloudFailure | None = None

    def __init__(self, message: str, *, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after = retry_after
        """Seconds the cloud asked to wait; 0 where it did not say."""


class NoCapacity(CloudError):
    """No instances of this kind are available now. Another pool may serve, or the same one later. Nothing was made."""

    failure = CloudFailure.CAPACITY


class QuotaReached(CloudError):
    """The account's quota is reached. An operator has to raise it, or instances have to go. Nothing was made."""

    failure = CloudFailure.QUOTA


class Throttled(CloudError):
    """Too many calls. The same call may succeed later. Nothing was made."""

    failure = CloudFailure.THROTTLED


class RequestRejected(CloudError):
    """The request cannot succeed: a wrong parameter, a missing right. The operator has to act. Nothing was made."""

    failure = CloudFailure.REFUSED


class OutcomeUnknown(CloudError):
    """The answer was lost, and the call may have taken effect. Repeat it with the same token, never with another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRef:
    """Pool as a provider needs to know it."""

    name: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Provider parameters of the NodeProvisioner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRequest:
    """Instances to be made as nodes of a pool."""

    pool: PoolRef
    count: int
    token: str
    """At most 64 characters. Equal tokens are one purchase."""
    template: NodeTemplate
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels the nodes must have. A provider that cannot set them leaves that to the loop that adopts the nodes."""
    least: int = 1
    """Smallest useful number: fewer are not to be made."""
    zone: str = ""
    """Zone the instances must come up in; empty leaves it to the provider."""


@dataclass(frozen=True, slots=True)
class CreateResult:
    """Instances made by a purchase."""

    instances: tuple[Instance, ...]
    shortfall: CloudError | None = None
    """Cause of a smaller number than requested."""


class CloudProvider(Protocol):
    """Cloud. Called from several tasks concurrently."""

    @property
    def name(self) -> str:
        """Name NodeProvisioners refer to."""
        ...

    @property
    def staleness(self) -> float:
        """Largest age of the answer of `list`, in seconds."""
        ...

    async def create(self, request: CreateRequest) -> CreateResult:
        """Make instances. The same token again makes none, whatever has become of the first ones since.

        Raises NoCapacity, QuotaReached, Throttled, RequestRejected (also for a known token with another count),
        OutcomeUnknown.
        """
        ...

    async def delete(self, ids: Sequence[str]) -> None:
        """Delete these instances, and their Nodes where the provider made those.

        Returns when the cloud has accepted it. Raises Throttled, RequestRejected, OutcomeUnknown; then any of them may
        be
        gone.
        """
        ...

    async def list(self, pools: Sequence[PoolRef]) -> Sequence[Instance]:
        """All instances of these pools, and those of other pools of this cluster where the provider can see them.

        Raises Throttled, RequestRejected, OutcomeUnknown.
        """
        ...

    async def templates(self, pool: PoolRef) -> Sequence[NodeTemplate]:
        """Templates of a pool's nodes, as far as the provider knows. Raises as `list` does."""
        ...

    async def run(self) -> None:
        """Run the provider's background work until cancelled. Most providers have none, and return."""
        ...

    async def close(self) -> None:
        """Close connections. Idempotent."""
        ...


@runtime_checkable
class ListChangeNotifier(Protocol):
    """Provider that also announces changes of its lists: it need not be polled."""

    def listen(self, on_change: Callable[[], None]) -> None:
        """Register a callback for every change of the lists. Spurious calls do no harm."""
        ...
