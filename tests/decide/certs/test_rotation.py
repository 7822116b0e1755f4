"""When certificates are made anew, and that nothing is served before it is trusted."""

from dataclasses import replace

import pytest

from ullage.decide.certs.rotation import CertificateSet, CertLifetimes, CertStep, ValidityPeriod, next_step
from ullage.model.units import Instant, Seconds

LIVES = CertLifetimes(authority=Seconds(3000.0), serving=Seconds(300.0), overlap=Seconds(50.0), backdated=Seconds(30.0))
FRESH = CertificateSet(
    authority=ValidityPeriod(Instant(-30), Instant(3000)),
    serving=ValidityPeriod(Instant(-30), Instant(300)),
    issued_by_authority=True,
    right_names=True,
)
PREPARED = replace(FRESH, next=ValidityPeriod(Instant(1960), Instant(4990)))


@pytest.mark.parametrize(
    ("have", "now", "step", "look_again"),
    [
        pytest.param(FRESH, 0, CertStep.KEEP, 200, id="fresh"),
        pytest.param(FRESH, 199, CertStep.KEEP, 200, id="just-before-a-third-is-left"),
        pytest.param(FRESH, 200, CertStep.RENEW_SERVING, 200, id="a-third-is-left"),
        pytest.param(FRESH, 400, CertStep.RENEW_SERVING, 400, id="slept-over-its-end"),
        pytest.param(replace(FRESH, right_names=False), 0, CertStep.RENEW_SERVING, 0, id="other-names"),
        pytest.param(replace(FRESH, issued_by_authority=False), 0, CertStep.RENEW_SERVING, 0, id="another-issuer"),
        pytest.param(FRESH, 2000, CertStep.PREPARE_AUTHORITY, 2000, id="a-third-of-the-authority-is-left"),
        pytest.param(
            replace(PREPARED, serving=ValidityPeriod(Instant(1900), Instant(2230))),
            1991,
            CertStep.KEEP,
            2040,
            id="trusted-not-used",
        ),
        pytest.param(PREPARED, 2040, CertStep.PROMOTE_AUTHORITY, 2040, id="trusted-long-enough"),
        pytest.param(
            replace(FRESH, retired=(ValidityPeriod(Instant(-9), Instant(5)),)),
            6,
            CertStep.FORGET_RETIRED,
            6,
            id="an-old-one-is-over",
        ),
        pytest.param(
            replace(FRESH, retired=(ValidityPeriod(Instant(-9), Instant(99)),)),
            6,
            CertStep.KEEP,
            99,
            id="an-old-one-is-not",
        ),
        pytest.param(FRESH, 3000, CertStep.START_OVER, 3000, id="slept-over-the-authoritys-end"),
        pytest.param(PREPARED, 3000, CertStep.PROMOTE_AUTHORITY, 3000, id="slept-with-a-next-one-ready"),
        pytest.param(PREPARED, 4990, CertStep.START_OVER, 4990, id="slept-over-the-next-ones-end"),
        pytest.param(
            replace(
                FRESH,
                authority=ValidityPeriod(Instant(-30), Instant(300)),
                next=ValidityPeriod(Instant(290), Instant(3000)),
            ),
            299,
            CertStep.KEEP,
            300,
            id="as-old-as-its-issuer",
        ),
    ],
)
def test_one_step(have: CertificateSet, now: float, step: CertStep, look_again: float) -> None:
    plan = next_step(have, LIVES, now=Instant(now))
    assert (plan.step, plan.look_again) == (step, look_again)


def test_while_nobody_can_be_told_an_authority_waits_and_certificates_are_renewed() -> None:
    keep = next_step(
        replace(PREPARED, serving=ValidityPeriod(Instant(1900), Instant(2290))),
        LIVES,
        now=Instant(2040),
        published=False,
    )
    assert (keep.step, keep.look_again) == (CertStep.KEEP, 2100.0)
    assert next_step(PREPARED, LIVES, now=Instant(2040), published=False).step is CertStep.RENEW_SERVING


def test_twenty_lives_of_an_authority() -> None:
    """Whoever follows the plan serves something good at any time, by an authority trusted for the overlap before."""
    have, now, issuer = FRESH, 0.0, FRESH.authority
    trusted_since = {FRESH.authority: -LIVES.overlap}
    promoted = steps = 0
    while now < 20 * LIVES.authority:
        plan = next_step(have, LIVES, now=Instant(now))
        steps += 1
        assert have.serving.start <= now < have.serving.end
        assert now - trusted_since[issuer] >= LIVES.overlap
        made = ValidityPeriod(Instant(now - LIVES.backdated), Instant(now + LIVES.serving))
        match plan.step:
            case CertStep.KEEP:
                assert plan.look_again > now
                now = plan.look_again
            case CertStep.RENEW_SERVING:
                have, issuer = replace(have, serving=made), have.authority
            case CertStep.PREPARE_AUTHORITY:
                new = ValidityPeriod(Instant(now - LIVES.backdated), Instant(now + LIVES.authority))
                have = replace(have, next=new)
                trusted_since[new] = now
            case CertStep.PROMOTE_AUTHORITY:
                assert have.next is not None
                issuer, retired = have.next, (*have.retired, have.authority)
                have = replace(have, authority=issuer, next=None, retired=retired, serving=made)
                promoted += 1
            case CertStep.FORGET_RETIRED:
                have = replace(have, retired=tuple(span for span in have.retired if now < span.end))
            case CertStep.START_OVER:
                pytest.fail(plan.why)
    assert 25 <= promoted <= 35
    assert steps < 1000, "a step that is repeated without need"
    assert len(have.retired) <= 1
