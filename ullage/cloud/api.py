"""`CloudProvider`: all that is ever asked of a cloud. Small, typed, and safe to ask again.

* `create` is idempotent by its token: asked again, a provider makes nothing more and answers with what it made. It
  makes at least `least` instances (and at least one) or none at all.
* `delete` is idempotent by nature: what is gone is gone.
* `list` may be old, by at most `staleness` seconds. It never invents instances.
* Whatever goes wrong is one of the errors below, which say what to do next. Nothing else may come out of a provider.

`ullage.testing.cloud_contract` holds any provider to this.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from ullage.errors import UllageError
from ullage.model.instance import Instance
from ullage.model.provisioner import Failure, NodeTemplate


class CloudError(UllageError):
    """A cloud refused, or could not be asked. `failure` says how to back off; None where nobody knows what happened."""

    failure: Failure | None = None

    def __init__(self, message: str, *, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after = retry_after
        """Seconds the cloud asked to be left alone for; 0 where it did not."""


class NoCapacity(CloudError):
    """There are none of these machines now. Another pool may do, or the same one later. Nothing was made."""

    failure = Failure.CAPACITY


class QuotaReached(CloudError):
    """The account may not have more. Somebody has to raise a limit, or something has to go. Nothing was made."""

    failure = Failure.QUOTA


class Throttled(CloudError):
    """Too many calls. The same one later. Nothing was made."""

    failure = Failure.THROTTLED


class Refused(CloudError):
    """Will never work as it is: a wrong parameter, a missing right. The operator has to act. Nothing was made."""

    failure = Failure.REFUSED


class OutcomeUnknown(CloudError):
    """The answer was lost. It may have happened: ask again with the same token, and never with another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRef:
    """A pool as a provider needs to know it."""

    name: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    """As the NodeProvisioner has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRequest:
    """Machines that are to become nodes of a pool."""

    pool: PoolRef
    count: int
    token: str
    """At most 64 characters. Equal tokens are one purchase."""
    template: NodeTemplate
    labels: Mapping[str, str] = field(default_factory=dict)
    """The nodes are to have these. A provider that cannot set them leaves it to whoever adopts the nodes."""
    least: int = 1
    """Fewer are of no use, and are not to be made."""
    zone: str = ""
    """Where they must come up; empty leaves it to the provider."""


@dataclass(frozen=True, slots=True)
class Created:
    """What a purchase made."""

    instances: tuple[Instance, ...]
    shortfall: CloudError | None = None
    """Why there are fewer than asked for."""


class CloudProvider(Protocol):
    """A cloud. May be called from several tasks at once."""

    @property
    def name(self) -> str:
        """As NodeProvisioners refer to it."""
        ...

    @property
    def staleness(self) -> float:
        """How old what `list` says may be, in seconds."""
        ...

    async def create(self, request: CreateRequest) -> Created:
        """Make instances. The same token again makes none, whatever has become of the first ones since.

        Raises NoCapacity, QuotaReached, Throttled, Refused (also for a known token with another count), OutcomeUnknown.
        """
        ...

    async def delete(self, ids: Sequence[str]) -> None:
        """See to it that these are gone, and their Nodes with them where the provider made those.

        Returns when the cloud has accepted it. Raises Throttled, Refused, OutcomeUnknown; then any of them may be gone.
        """
        ...

    async def list(self, pools: Sequence[PoolRef]) -> Sequence[Instance]:
        """All instances of these pools, and those of other pools of this cluster where the provider can see them.

        Raises Throttled, Refused, OutcomeUnknown.
        """
        ...

    async def templates(self, pool: PoolRef) -> Sequence[NodeTemplate]:
        """What nodes of a pool will be like, as far as the provider knows. Raises as `list` does."""
        ...

    async def run(self) -> None:
        """What has to go on beside the calls, until cancelled. Most providers have nothing to do, and return."""
        ...

    async def close(self) -> None:
        """Let go of connections. Idempotent."""
        ...


@runtime_checkable
class Announcing(Protocol):
    """A provider that also says when its lists have changed: it need not be asked in between."""

    def listen(self, on_change: Callable[[], None]) -> None:
        """Be told whenever lists say something else than before. Told too often does no harm."""
        ...
