"""Group requests into smart pods: shares that may share a node go together, everything else alone.

A group has one id and is served by one node. Requests that must not share a node never share an id: Karpenter packs by
that label, and packs first and prices afterwards.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from ullage.decide.karpenter.node_pool_mapping import Chosen
from ullage.model.claim import Exclusivity
from ullage.model.device import MILLI_GPU
from ullage.model.karpenter import CapacityRequest, NodePoolMapping
from ullage.model.units import Milli

MOST_IN_GROUP = 64
"""Most requests in a group, so that its original request fits in the annotation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestGroup:
    """Requests served by one smart pod."""

    id: str
    mapping: NodePoolMapping
    requests: tuple[CapacityRequest, ...]
    gpus: int
    attempts: int = 0
    exhausted: tuple[str, ...] = ()

    @property
    def need(self) -> str:
        return need_of(self.requests)


def request_id(requests: Sequence[CapacityRequest]) -> str:
    """Id of a group, from names and uids of its pods. A pod recreated under its name has another uid, so another id."""
    named = sorted((*one.pod.key, one.pod.uid) for one in requests)
    return hashlib.sha256(msgspec.json.encode(named)).hexdigest()[:16]


def need_of(requests: Iterable[CapacityRequest]) -> str:
    """Fingerprint of the requests. A different fingerprint means that a request has changed."""
    asked = [
        (one.pod.uid, one.ask, one.requests, one.node_selector, one.node_affinity, one.tolerations)
        for one in sorted(requests, key=lambda one: (one.pod.key, one.pod.uid))
    ]
    return hashlib.sha256(msgspec.json.encode(asked)).hexdigest()[:16]


def grouped(chosen: Sequence[tuple[CapacityRequest, Chosen]]) -> list[RequestGroup]:
    """Group requests in the order given. Shares fill the first open group of their kind that has room."""
    groups: list[_Open] = []
    for request, choice in chosen:
        home = next((one for one in groups if one.takes(request, choice)), None)
        if home is None:
            groups.append(_Open(request, choice))
        else:
            home.add(request, choice)
    return [one.closed() for one in groups]


class _Open:
    """A group that may still grow."""

    def __init__(self, first: CapacityRequest, choice: Chosen) -> None:
        self._requests = [first]
        self._choice = choice
        self._milli = choice.milli

    def takes(self, request: CapacityRequest, choice: Chosen) -> bool:
        first = self._requests[0]
        return (
            _may_share(first)
            and _may_share(request)
            and choice.mapping == self._choice.mapping
            and _rules(request) == _rules(first)
            and self._milli + choice.milli <= MILLI_GPU
            and len(self._requests) < MOST_IN_GROUP
        )

    def add(self, request: CapacityRequest, choice: Chosen) -> None:
        self._requests.append(request)
        self._milli = Milli(self._milli + choice.milli)

    def closed(self) -> RequestGroup:
        failures = [one.failure for one in self._requests if one.failure is not None]
        return RequestGroup(
            id=request_id(self._requests),
            mapping=self._choice.mapping,
            requests=tuple(self._requests),
            gpus=self._choice.gpus,
            attempts=max((one.attempts for one in failures), default=0),
            exhausted=tuple(sorted({name for one in failures for name in one.exhausted})),
        )


def _may_share(request: CapacityRequest) -> bool:
    one_share = request.ask.exclusivity is Exclusivity.SHARED and request.ask.count == 1
    return one_share and request.shareable and request.gang is None


def _rules(request: CapacityRequest) -> object:
    """Constraints of a request on its node, without the amount of GPUs. Requests with equal ones may share a node."""
    return (
        request.node_selector,
        request.node_affinity,
        request.tolerations,
        request.ask.model,
        request.ask.policy,
        request.ask.prefer_ids,
    )
