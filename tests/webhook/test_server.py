"""HTTPS in front of the reviewer: limits, and certificates that change under it."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from ullage.certs.authority import CertificatePair, der_of
from ullage.certs.serving import CertificateBundle, check_served
from ullage.clock import WallClock
from ullage.decide.certs.rotation import CertStep
from ullage.errors import Unreachable, UserError
from ullage.testing.admission import ISSUER, UID, AdmissionStage, a_large_pod, a_review, a_server, encoded, trusting
from ullage.testing.builders import a_pod
from ullage.webhook.server import RequestLimits

SMALL = RequestLimits(body=100_000, body_seconds=0.3, large=1000, large_at_once=2)
GOOD = encoded(a_review(a_pod("p")))


async def pieces(size: int, pause: float = 0.0) -> AsyncIterator[bytes]:
    """A body of unknown length."""
    for _ in range(size // 10_000):
        yield b"x" * 10_000
        await asyncio.sleep(pause)


async def test_a_review_is_answered() -> None:
    async with a_server() as stage, stage.session.post(f"{stage.url}/mutate", data=GOOD) as answer:
        assert (answer.status, answer.content_type) == (200, "application/json")
        assert (await answer.json())["response"] == {"uid": UID, "allowed": True}


async def test_a_body_above_the_limit_is_refused_whether_or_not_it_says_so() -> None:
    async with a_server(SMALL) as stage:
        for body in (b"x" * 100_001, pieces(200_000)):
            async with stage.session.post(f"{stage.url}/mutate", data=body) as answer:
                assert (answer.status, (await answer.json())["reason"]) == (413, "RequestEntityTooLarge")
        async with stage.session.post(f"{stage.url}/mutate", data=GOOD) as answer:
            assert answer.status == 200


async def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    async with (
        a_server(SMALL) as stage,
        stage.session.post(f"{stage.url}/validate", data=pieces(50_000, pause=0.2)) as answer,
    ):
        assert (answer.status, (await answer.json())["reason"]) == (408, "Timeout")


async def test_slow_large_bodies_do_not_hold_up_small_ones() -> None:
    go_on = asyncio.Event()

    async def held_back() -> AsyncIterator[bytes]:
        yield b"x" * 30_000
        await go_on.wait()
        yield b"x" * 20_000

    async with a_server(RequestLimits(body_seconds=60.0, large=20_000, large_at_once=1)) as stage:
        slow = [asyncio.ensure_future(stage.session.post(f"{stage.url}/mutate", data=held_back())) for _ in range(3)]
        await asyncio.sleep(0.1)
        async with asyncio.timeout(30), stage.session.post(f"{stage.url}/mutate", data=GOOD) as answer:
            assert answer.status == 200
        go_on.set()
        for answered in await asyncio.gather(*slow):
            assert answered.status == 400
            answered.release()


async def test_other_pages_are_not_there() -> None:
    async with a_server() as stage:
        async with stage.session.post(f"{stage.url}/elsewhere", data=GOOD) as answer:
            assert answer.status == 404
        async with stage.session.get(f"{stage.url}/mutate") as answer:
            assert answer.status == 405


async def shown(stage: AdmissionStage) -> bytes:
    """The certificate a new connection gets."""
    context = trusting(stage.tls_secret)
    _, writer = await asyncio.open_connection("127.0.0.1", stage.address.port, ssl=context)
    found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return found


async def test_a_new_certificate_is_shown_to_new_connections_and_old_ones_stay() -> None:
    async with a_server() as stage:
        reader, writer = await asyncio.open_connection("127.0.0.1", stage.address.port, ssl=trusting(stage.tls_secret))
        request = b"POST /mutate HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(GOOD)
        renewed = ISSUER.advance(stage.tls_secret, CertStep.RENEW_SERVING, WallClock().now())
        before = await shown(stage)
        assert stage.certificate.load(CertificateBundle(renewed.serving, renewed.trusted)) is True
        assert await shown(stage) == der_of(renewed.serving.certificate) != before
        writer.write(request + GOOD)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        writer.close()
        assert stage.certificate.load(CertificateBundle(renewed.serving, renewed.trusted)) is False


async def test_a_pair_that_does_not_belong_together_changes_nothing() -> None:
    async with a_server() as stage:
        before = await shown(stage)
        other = ISSUER.start(WallClock().now())
        wrong = CertificatePair(other.serving.certificate, stage.tls_secret.serving.key)
        with pytest.raises(UserError, match="belong together"):
            stage.certificate.load(CertificateBundle(wrong, None))
        assert await shown(stage) == before


async def test_the_own_check_sees_what_callers_see() -> None:
    async with a_server() as stage:
        good = CertificateBundle(stage.tls_secret.serving, stage.tls_secret.trusted)
        await check_served(stage.address, good, "127.0.0.1")
        await check_served(stage.address, CertificateBundle(good.pair, None), "any.name")
        other = ISSUER.start(WallClock().now())
        with pytest.raises(Unreachable, match="does not answer"):
            await check_served(stage.address, CertificateBundle(other.serving, other.trusted), "127.0.0.1")
        with pytest.raises(Unreachable, match="another certificate"):
            await check_served(stage.address, CertificateBundle(other.serving, None), "127.0.0.1")


async def test_a_large_review_is_answered_like_a_small_one() -> None:
    body = encoded(a_review(a_large_pod(1_000_000)))
    async with a_server() as stage, stage.session.post(f"{stage.url}/mutate", data=body) as answer:
        assert json.loads(await answer.read())["response"]["patchType"] == "JSONPatch"
