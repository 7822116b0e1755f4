"""What is to be remembered of purchases and failures: a provisioner's facts before and after. Others write it down."""

from collections.abc import Collection

from msgspec.structs import replace

from ullage.decide.pool.backoff import after_failure
from ullage.model.instance import InstanceState
from ullage.model.pool_action import Provision
from ullage.model.pool_outcome import Bought, NotBought
from ullage.model.provisioner import Awaited, Failure, Provisioner, Purchase

LIST_GRACE = 60.0
"""Seconds beyond a list's staleness after which what is not in it is not there."""


def begun(provisioner: Provisioner, action: Provision, *, now: float) -> Provisioner:
    """A purchase is about to be made: from now on no other one is, until its outcome is known."""
    if provisioner.purchase is not None:
        return provisioner
    purchase = Purchase(serial=action.serial, count=action.count, since=now, zone=action.zone, least=action.least)
    return replace(provisioner, purchase=purchase, purchases=action.serial + 1)


def settled(provisioner: Provisioner, outcome: Bought | NotBought, *, now: float) -> Provisioner:
    """What is known of a purchase. Where nothing is, it stays open and is asked for again a little later."""
    match outcome:
        case Bought(instances=instances, failure=failure, detail=detail):
            known = {one.instance for one in provisioner.awaited}
            # Those without an id of their own are in every list until they have one.
            new = [one for one in instances if one.state is not InstanceState.REQUESTED and one.id not in known]
            awaited = (*provisioner.awaited, *(Awaited(instance=one.id, since=now) for one in new))
            back_off = None
            if failure is not None:
                back_off = after_failure(provisioner.back_off, failure, now=now, message=detail)
            return replace(provisioner, purchase=None, awaited=awaited, back_off=back_off)
        case NotBought(failure=failure):
            if failure is None:
                return _failed(provisioner, Failure.UNKNOWN, outcome, now)
            return replace(_failed(provisioner, failure, outcome, now), purchase=None)


def _failed(provisioner: Provisioner, failure: Failure, outcome: NotBought, now: float) -> Provisioner:
    back_off = after_failure(
        provisioner.back_off, failure, now=now, message=outcome.detail, at_least=outcome.retry_after
    )
    return replace(provisioner, back_off=back_off)


def given_up(provisioner: Provisioner, instances: Collection[str], *, now: float) -> Provisioner:
    """Instances never became nodes, and are gone: the provisioner is left alone for a while."""
    awaited = tuple(one for one in provisioner.awaited if one.instance not in instances)
    message = f"{', '.join(sorted(instances))} never became a node"
    back_off = after_failure(provisioner.back_off, Failure.NEVER_JOINED, now=now, message=message)
    return replace(provisioner, awaited=awaited, back_off=back_off)


def pruned(provisioner: Provisioner, listed: Collection[str], *, staleness: float, now: float) -> Provisioner:
    """Instances are awaited until they are listed, or ought to have been."""
    awaited = tuple(
        one for one in provisioner.awaited if one.instance not in listed and now <= one.since + staleness + LIST_GRACE
    )
    return provisioner if awaited == provisioner.awaited else replace(provisioner, awaited=awaited)
