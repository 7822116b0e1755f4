"""Purchase state of a pool: open purchase, awaited instances and back-offs, before and after each outcome."""

from collections.abc import Collection, Iterable, Mapping

from msgspec.structs import replace

from ullage.model.instance import InstanceState
from ullage.model.intents import ScaleUp
from ullage.model.lifecycles import PURCHASE, PurchaseState
from ullage.model.outcomes import (
    LaunchFailed,
    NodesLaunched,
    PoolActionDone,
    PoolActionFailed,
    PoolFailure,
    PoolOutcome,
)
from ullage.model.provisioner import (
    MOST_ASKED_FOR,
    AwaitedInstance,
    BackOff,
    CloudFailure,
    Provisioner,
    Purchase,
)
from ullage.model.units import Instant, Seconds, Steady

MINUTE = Seconds(60.0)


def _minutes(first: int, longest: int) -> tuple[Seconds, Seconds]:
    return Seconds(first * MINUTE), Seconds(longest * MINUTE)


WAITS: Mapping[CloudFailure, tuple[Seconds, Seconds]] = {
    CloudFailure.CAPACITY: _minutes(2, 30),
    CloudFailure.QUOTA: _minutes(10, 60),
    CloudFailure.THROTTLED: (Seconds(5.0), Seconds(2 * MINUTE)),
    CloudFailure.REFUSED: _minutes(30, 30),
    CloudFailure.NEVER_JOINED: _minutes(5, 30),
    CloudFailure.UNKNOWN: (Seconds(5.0), Seconds(2 * MINUTE)),
}
"""First and longest wait in seconds."""

FORGIVEN_AFTER = Seconds(180 * MINUTE)
"""Seconds after the end of a back-off. A failure later than that counts as a first one."""
_ROUNDED = Seconds(2.0)
"""Seconds of tolerance: instants are written rounded up."""


def _wait(failure: CloudFailure, failures: int) -> Seconds:
    first, longest = WAITS[failure]
    return Seconds(min(longest, first * float(1 << min(max(failures, 1) - 1, 16))))


def within_reason(back_off: BackOff, *, now: Instant) -> BackOff:
    """The same back-off, unless it ends later than any can: then a wrong clock wrote it, and it begins now."""
    wait = _wait(back_off.failure, back_off.failures)
    if back_off.until <= now + max(wait, MOST_ASKED_FOR) + _ROUNDED:
        return back_off
    return BackOff(
        failure=back_off.failure, failures=back_off.failures, until=Instant(now + wait), message=back_off.message
    )


def after_failure(
    before: BackOff | None, failure: CloudFailure, *, now: Instant, message: str = "", at_least: Seconds = Seconds(0.0)
) -> BackOff:
    """Back-off after one more failure. A failure during a back-off moves its end, and does not lengthen the wait.

    `at_least` is the wait in seconds that the cloud itself asked for.
    """
    failures = 1
    if before is not None and before.failure is failure and now <= before.until + FORGIVEN_AFTER:
        failures = before.failures if now < before.until else before.failures + 1
    wait = max(min(at_least, MOST_ASKED_FOR), _wait(failure, failures))
    until = now + wait if before is None else max(before.until, now + wait)
    return BackOff(failure=failure, failures=failures, until=Instant(until), message=message)


LIST_MARGIN = Seconds(60.0)
"""Seconds beyond a list's staleness after which an instance that is not listed does not exist."""


def open_purchase(provisioner: Provisioner, action: ScaleUp, *, now: Instant) -> Provisioner:
    """Record a purchase about to be made. No other one is begun until its outcome is known."""
    if provisioner.purchase is not None:
        return provisioner
    purchase = Purchase(serial=action.serial, count=action.count, since=now, zone=action.zone, least=action.least)
    return replace(provisioner, purchase=purchase, purchases=action.serial + 1)


def settle_purchase(provisioner: Provisioner, outcome: NodesLaunched | LaunchFailed, *, now: Instant) -> Provisioner:
    """Record the outcome of a purchase. An unknown one leaves it open: it is requested again after a back-off.

    Raises IllegalTransition for a purchase that was not written before the cloud was asked.
    """
    start = PurchaseState.PLANNED if provisioner.purchase is None else PurchaseState.OPEN
    PURCHASE.advance(provisioner.name, start, _state_after(outcome))
    match outcome:
        case NodesLaunched(instances=instances, failure=failure, detail=detail):
            known = {one.instance for one in provisioner.awaited}
            # Instances without an id of their own are in every list until they have one.
            new = [one for one in instances if one.state is not InstanceState.REQUESTED and one.id not in known]
            awaited = (*provisioner.awaited, *(AwaitedInstance(instance=one.id, since=now) for one in new))
            back_off = None
            if failure is not None:
                back_off = after_failure(provisioner.back_off, failure, now=now, message=detail)
            return replace(provisioner, purchase=None, awaited=awaited, back_off=back_off)
        case LaunchFailed(failure=failure):
            if failure is None:
                return _failed(provisioner, CloudFailure.UNKNOWN, outcome, now)
            return replace(_failed(provisioner, failure, outcome, now), purchase=None)


def _state_after(outcome: NodesLaunched | LaunchFailed) -> PurchaseState:
    if isinstance(outcome, NodesLaunched):
        return PurchaseState.SETTLED
    return PurchaseState.OPEN if outcome.failure is None else PurchaseState.FAILED


def _failed(provisioner: Provisioner, failure: CloudFailure, outcome: LaunchFailed, now: Instant) -> Provisioner:
    back_off = after_failure(
        provisioner.back_off, failure, now=now, message=outcome.detail, at_least=outcome.retry_after
    )
    return replace(provisioner, back_off=back_off)


def release_lost(
    provisioner: Provisioner, never_joined: Collection[str], departed: Collection[str] = (), *, now: Instant
) -> Provisioner:
    """Record instances that failed to register and are deleted: the provisioner backs off.

    `departed` are instances whose Node was deleted. They are no failure of the cloud, and cause no back-off.
    """
    gone = {*never_joined, *departed}
    awaited = tuple(one for one in provisioner.awaited if one.instance not in gone)
    if not never_joined:
        return replace(provisioner, awaited=awaited)
    message = f"{', '.join(sorted(never_joined))} never became a node"
    back_off = after_failure(provisioner.back_off, CloudFailure.NEVER_JOINED, now=now, message=message)
    return replace(provisioner, awaited=awaited, back_off=back_off)


def prune_awaited(
    provisioner: Provisioner, listed: Collection[str], *, list_age: Seconds | None, now: Instant
) -> Provisioner:
    """Drop awaited instances that are listed, or ought to have been.

    `list_age`: seconds for which the last list may be out of date; None where it failed, and proves nothing missing.
    Times in the future were written by a wrong clock, and begin now.
    """
    awaited = tuple(
        one if one.since <= now else replace(one, since=now)
        for one in provisioner.awaited
        if one.instance not in listed and (list_age is None or now <= one.since + list_age + LIST_MARGIN)
    )
    back_off = None if provisioner.back_off is None else within_reason(provisioner.back_off, now=now)
    if (awaited, back_off) == (provisioner.awaited, provisioner.back_off):
        return provisioner
    return replace(provisioner, awaited=awaited, back_off=back_off)


class DeleteBackoff:
    """Back-off per pool; per provider where the cloud itself gave a time, because its limits are those of the account.

    Times are of the steady clock, also those in the `BackOff`s kept here. A restart forgets them, and the cloud answers
    so once more.
    """

    def __init__(self) -> None:
        self._held: dict[str, BackOff] = {}
        self._asked: dict[str, Steady] = {}

    def seconds(self, pool: str, provider: str, *, steady: Steady) -> Seconds:
        """Seconds until the next deletion is allowed; 0 if it is allowed now."""
        until = self._held[pool].until if pool in self._held else steady
        return Seconds(max(0.0, until - steady, self._asked.get(provider, steady) - steady))

    def learn(self, pool: str, provider: str, outcomes: Iterable[PoolOutcome], *, steady: Steady) -> None:
        """Take in the outcomes of a step."""
        tried = [one for one in outcomes if not _is_our_own_refusal(one)]
        failed = [one for one in tried if isinstance(one, PoolActionFailed)]
        if not failed:
            if tried:
                self._held.pop(pool, None)
            return
        asked = max(one.retry_after for one in failed)
        failure = CloudFailure.THROTTLED if asked else CloudFailure.UNKNOWN
        back_off = after_failure(self._held.get(pool), failure, now=Instant(steady), at_least=asked)
        self._held[pool] = back_off
        if asked:
            self._asked[provider] = max(self._asked.get(provider, steady), Steady(back_off.until))


def _is_our_own_refusal(outcome: PoolOutcome) -> bool:
    """True if the outcome says nothing about the cloud: our own checks refused, or the API server failed."""
    if isinstance(outcome, PoolActionDone):
        return False
    return not (isinstance(outcome, PoolActionFailed) and outcome.setback is PoolFailure.CLOUD_FAILED)
