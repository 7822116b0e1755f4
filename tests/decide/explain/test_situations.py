"""The first sentence of `explain` names the true obstacle, and its first advice leads to a placement."""

import pytest

from tests.decide.explain.situations import EVERY_REASON, OUR_OWN, SITUATIONS, Situation
from ullage.cli.explain import as_lines
from ullage.decide.explain.plan_scale import plan_scale
from ullage.decide.explain.planning import PlanInputs, SchedulePlanner
from ullage.decide.explain.pod import PodExplanation, explain_pod
from ullage.decide.explain.remedy import Remedy
from ullage.model.fact_event import ObjectKey
from ullage.model.units import Instant
from ullage.model.verdict import Reason

LEAST = len(SITUATIONS) - 2
POD = ObjectKey("team", "p")


def explained(one: Situation) -> PodExplanation:
    scene = one.scene()
    known = PlanInputs(unreadable_claims=scene.known.unreadable_claims, pools=one.pools(), **one.known)
    return explain_pod(scene.snapshot, scene.snapshot.state.pods[POD], known, now=Instant(scene.now))


def first_sentence(said: PodExplanation) -> str:
    return as_lines(said)[0].partition(". ")[0]


def placed_after(one: Situation, remedy: Remedy) -> bool:
    """Follow an advice mechanically in a cluster made anew, and let the planner decide."""
    scene = one.scene()
    for change in remedy.changes:
        scene.snapshot.apply(change)
    if remedy.pools:
        plan_scale(scene.snapshot, remedy.pools, now=Instant(scene.now))
        return POD in scene.snapshot.pods
    unreadable = {key: why for key, why in scene.known.unreadable_claims.items() if key not in remedy.readable}
    planner = SchedulePlanner(scene.snapshot, PlanInputs(unreadable_claims=unreadable), now=Instant(scene.now))
    planner.run()
    return POD in planner.placements


def wrong(one: Situation) -> str:
    """What is wrong with the answer; empty if nothing is."""
    said = explained(one)
    sentence = first_sentence(said)
    if one.reason not in sentence:
        return f"says {sentence!r} instead of {one.reason}"
    if not said.remedies or said.steps[0] != said.remedies[0].remedy.sentence:
        return f"advises {said.steps[:1]}, which cannot be tried"
    if hidden := [word for word in one.unlike if word in said.steps[0]]:
        return f"advises {said.steps[0]!r} with {hidden[0]!r}"
    return "" if placed_after(one, said.remedies[0].remedy) else f"advice {said.steps[0]!r} does not help"


def test_every_reason_has_a_situation() -> None:
    met = {one.reason for one in EVERY_REASON}
    assert met == {reason.value for reason in Reason if reason is not Reason.FITS}
    assert len(OUR_OWN) >= 20
    assert len(SITUATIONS) >= 60


@pytest.mark.parametrize("one", [pytest.param(one, id=one.name.replace(" ", "-")) for one in SITUATIONS])
def test_commands_can_be_copied(one: Situation) -> None:
    """Every advice but one to wait comes with a command."""
    for tried in explained(one).remedies:
        assert tried.remedy.commands or tried.remedy.sentence.startswith("wait"), tried.remedy.sentence


def test_score(capsys: pytest.CaptureFixture[str]) -> None:
    failures = {one.name: problem for one in SITUATIONS if (problem := wrong(one))}
    right = len(SITUATIONS) - len(failures)
    with capsys.disabled():
        print(f"\nexplain: right in {right} of {len(SITUATIONS)} situations (at least {LEAST})")  # noqa: T201
    assert right >= LEAST, "\n".join(f"{name}: {problem}" for name, problem in failures.items())
