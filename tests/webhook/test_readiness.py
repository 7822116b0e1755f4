"""Ready when nothing is in the way any more."""

import asyncio

import pytest

from ullage.webhook.readiness import Readiness


async def test_everything_is_in_the_way_until_it_is_said_to_be_well() -> None:
    readiness = Readiness("claims", "certificate")
    waiting = asyncio.ensure_future(readiness.wait())
    readiness.say("claims")
    await asyncio.sleep(0)
    assert not waiting.done()
    assert {name: check() for name, check in readiness.checks.items()} == {"claims": "", "certificate": "not yet"}
    readiness.say("certificate")
    await asyncio.wait_for(waiting, 30)
    readiness.say("certificate", "another one is served")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(readiness.wait(), 0.01)


def test_what_nobody_knows_of_cannot_be_well() -> None:
    with pytest.raises(KeyError):
        Readiness("claims").say("clams")
