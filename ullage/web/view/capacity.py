"""Capacity on order: smart pods and NodeClaims with their states and times, as rows."""

from typing import Any

from ullage.decide.karpenter.facts import KarpenterFacts
from ullage.decide.karpenter.lifecycle import LAUNCHED, READY, REGISTERED
from ullage.decide.karpenter.outlook import RequestOutlook, request_outlooks
from ullage.model.fact_event import FactEvent
from ullage.model.karpenter import NodeClaim, Tristate
from ullage.model.units import Instant
from ullage.web.view.pacing import is_due
from ullage.web.view.patch import SectionTable
from ullage.web.view.rows import CapacityRow, NodeClaimStep

RENEW_AFTER = 5.0
"""Seconds after which expected times are computed again without an event."""
MOST_READY = 20
"""NodeClaims shown whose nodes are in use, the newest."""
STEPS = (LAUNCHED, REGISTERED, "Initialized", READY)


class CapacityOnOrder:
    """Requests that Karpenter serves, and NodeClaims made for requests."""

    def __init__(self) -> None:
        self.facts = KarpenterFacts()
        self.table = SectionTable()
        self._stale = True
        self._renewed = 0.0

    def observe(self, event: FactEvent[Any]) -> None:
        """Apply a change of a smart pod, a NodeClaim, a NodePool or a node bought for a request."""
        self.facts.apply(event)
        self._stale = True

    def renew(self, *, now: float) -> None:
        """Update the rows, if a fact changed or the last update is some seconds old."""
        if not self._stale and (not self.table.rows or not is_due(self._renewed, RENEW_AFTER, now=now)):
            return
        self._stale, self._renewed = False, now
        rows = {one.request: self._request_row(one) for one in request_outlooks(self.facts, now=Instant(now))}
        shown = {row.node_claim for row in rows.values()}
        rows |= {f"nodeclaim/{one.name}": _claim_row(one) for one in self._other_claims(shown)}
        for key in [key for key in self.table.rows if key not in rows]:
            self.table.drop(key)
        for key, row in rows.items():
            self.table.put(key, row)

    def _other_claims(self, shown: set[str]) -> list[NodeClaim]:
        """NodeClaims made for requests that are served or over: all that are not Ready, and the newest that are."""
        mine = [one for one in self.facts.node_claims.values() if one.request and one.name not in shown]
        mine.sort(key=lambda one: (-one.created, one.name))
        ready = [one for one in mine if one.holds(READY) and not one.deleting]
        return [one for one in mine if one not in ready] + ready[:MOST_READY]

    def _request_row(self, one: RequestOutlook) -> CapacityRow:
        claim = self.facts.node_claims.get(one.node_claim)
        return CapacityRow(
            request=one.request,
            smart_pod="" if one.smart_pod is None else str(one.smart_pod),
            pods=tuple(str(pod.key) for pod in one.pods),
            state=one.state.value,
            status=one.status.value,
            since=one.since,
            attempts=one.attempts,
            node_pool=one.node_pool,
            unprotected=self._is_unprotected(one.node_pool),
            node_claim=one.node_claim,
            claimed_at=one.claimed_at or None,
            steps=() if claim is None else _steps(claim),
            node=one.node,
            expected=one.expected,
            latest=one.latest,
        )

    def _is_unprotected(self, node_pool: str) -> bool:
        pool = self.facts.node_pools.get(node_pool)
        return pool is not None and pool.unprotected.status is Tristate.TRUE


def _claim_row(claim: NodeClaim) -> CapacityRow:
    """Row of a NodeClaim whose request is served or over."""
    reached = next((step for step in reversed(STEPS) if claim.holds(step)), "Created")
    state = "Deleting" if claim.deleting else reached
    since = claim.created if reached == "Created" else claim.condition(reached).since
    return CapacityRow(
        request=claim.request,
        state=state,
        since=since,
        node_pool=claim.node_pool,
        node_claim=claim.name,
        claimed_at=claim.created,
        steps=_steps(claim),
        node=claim.node,
    )


def _steps(claim: NodeClaim) -> tuple[NodeClaimStep, ...]:
    """Conditions that hold, each with its seconds since the NodeClaim was created."""
    return tuple(
        NodeClaimStep(name=step, after=max(0.0, claim.condition(step).since - claim.created))
        for step in STEPS
        if claim.holds(step)
    )
