"""Records of purchases and failures: a provisioner's facts before and after. The provisioning loop writes them."""

from collections.abc import Collection

from msgspec.structs import replace

from ullage.decide.provisioning.backoff import after_failure, within_reason
from ullage.model.instance import InstanceState
from ullage.model.intents import ScaleUp
from ullage.model.outcomes import LaunchFailed, NodesLaunched
from ullage.model.provisioner import AwaitedInstance, CloudFailure, Provisioner, Purchase

LIST_GRACE = 60.0
"""Seconds beyond a list's staleness after which an instance that is not listed does not exist."""


def begun(provisioner: Provisioner, action: ScaleUp, *, now: float) -> Provisioner:
    """Record a purchase about to be made. No other one is begun until its outcome is known."""
    if provisioner.purchase is not None:
        return provisioner
    purchase = Purchase(serial=action.serial, count=action.count, since=now, zone=action.zone, least=action.least)
    return replace(provisioner, purchase=purchase, purchases=action.serial + 1)


def settled(provisioner: Provisioner, outcome: NodesLaunched | LaunchFailed, *, now: float) -> Provisioner:
    """Record the outcome of a purchase. An unknown one leaves it open: it is requested again after a back-off."""
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


def _failed(provisioner: Provisioner, failure: CloudFailure, outcome: LaunchFailed, now: float) -> Provisioner:
    back_off = after_failure(
        provisioner.back_off, failure, now=now, message=outcome.detail, at_least=outcome.retry_after
    )
    return replace(provisioner, back_off=back_off)


def given_up(
    provisioner: Provisioner, never_joined: Collection[str], departed: Collection[str] = (), *, now: float
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


def pruned(provisioner: Provisioner, listed: Collection[str], *, staleness: float, now: float) -> Provisioner:
    """Drop awaited instances that are listed, or ought to have been.

    Times in the future were written by a wrong clock, and begin now.
    """
    awaited = tuple(
        one if one.since <= now else replace(one, since=now)
        for one in provisioner.awaited
        if one.instance not in listed and now <= one.since + staleness + LIST_GRACE
    )
    back_off = None if provisioner.back_off is None else within_reason(provisioner.back_off, now=now)
    if (awaited, back_off) == (provisioner.awaited, provisioner.back_off):
        return provisioner
    return replace(provisioner, awaited=awaited, back_off=back_off)
