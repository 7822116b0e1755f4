"""Malformed reviews over TLS: each is answered, the server stays up, its memory does not grow."""

import io
import json
import resource
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.webhook.fuzz import bodies
from ullage.testing.admission import UID, AdmissionStage, a_review, a_server, encoded
from ullage.testing.builders import a_pod

GROWTH = 48 << 20
"""Bytes by which the process may be larger at the end than after the first quarter: what allocators keep."""


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def uid_in(body: bytes) -> Any:
    try:
        return json.loads(body.decode(errors="replace"))["request"]["uid"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


async def answered(stage: AdmissionStage, path: str, body: bytes) -> tuple[int, bytes]:
    async with stage.session.post(
        f"{stage.url}{path}", data=io.BytesIO(body), timeout=aiohttp.ClientTimeout(20)
    ) as answer:
        return answer.status, await answer.read()


@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.full)])
async def test_every_malformed_review_is_answered(count: int) -> None:
    outcomes = {200: 0, 400: 0, 413: 0}
    settled = 0
    async with a_server() as stage:
        for number, (kind, body) in enumerate(bodies(seed=20, count=count)):
            code, said = await answered(stage, ("/mutate", "/validate")[number % 2], body)
            outcomes[code] += 1  # anything else is a KeyError here
            parsed = json.loads(said)
            if code == 200:
                assert parsed["response"]["uid"] == uid_in(body), (number, kind)
                assert parsed["response"]["allowed"] or parsed["response"]["status"]["message"], (number, kind)
            else:
                assert (parsed["kind"], parsed["code"]) == ("Status", code), (number, kind)
            if number == count // 4:
                settled = resident()
        code, said = await answered(stage, "/mutate", encoded(a_review(a_pod("p"))))
        assert (code, json.loads(said)["response"]) == (200, {"uid": UID, "allowed": True})
    assert resident() - settled < GROWTH
    assert min(outcomes.values()) > 0, outcomes
    assert sum(outcomes.values()) == count
