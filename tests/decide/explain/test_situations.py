"""The first sentence of `explain` names the true obstacle, and its first advice leads to a placement."""

import re

import pytest

from tests.decide.explain.situations import EVERY_REASON, OUR_OWN, PDB, SITUATIONS, Situation, h100, held, wants
from tests.decide.scenes import pod
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
PYTHON = re.compile(r"[\[({]['\"]|\b(None|True|False)\b|,\)")


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
    if spelt := PYTHON.search("\n".join((said.message, *said.steps))):
        return f"says {spelt[0]!r}, as Python spells it"
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


def test_nobody_is_advised_to_tolerate_the_taint_that_keeps_leased_gpus_apart() -> None:
    """Whoever follows that would see GPUs of others; the webhook would keep the pod off, too."""
    found = explained(next(one for one in SITUATIONS if one.name == "a plain request on a leased node"))
    assert [one.remedy.sentence for one in found.remedies if "gpu.scheduling/claim" in one.remedy.sentence]
    said = (found.message, *found.steps, *(word for one in found.remedies for word in one.remedy.commands))
    assert [one for one in said if "/spec/tolerations" in one or one.startswith("tolerate ")] == []


def test_a_gang_is_told_of_the_nodes_that_it_lacks_not_of_all_that_it_needs() -> None:
    found = explained(next(one for one in SITUATIONS if one.name.startswith("five seats of six")))
    assert [one.remedy.sentence for one in found.remedies if one.proof.works] == ["another node like h0"]


@pytest.mark.parametrize(
    ("ahead", "said"),
    [
        pytest.param(0, "another node like h", id="nobody-ahead"),
        pytest.param(4, "5 more nodes like h", id="four-ahead-of-it"),
        pytest.param(30, "another node like h", id="more-ahead-than-are-tried"),
    ],
)
def test_nodes_for_pods_ahead_in_the_queue_are_counted(ahead: int, said: str) -> None:
    others = [pod(f"a{number}", 8, created="2029-01-01T00:00:00Z") for number in range(ahead)]
    one = Situation(name="", reason="", objects=[h100("h"), held("h", labels={"app": "kept"}), PDB, wants(8), *others])
    assert next(tried.remedy.sentence for tried in explained(one).remedies if "like h" in tried.remedy.sentence) == said


def test_score(capsys: pytest.CaptureFixture[str]) -> None:
    failures = {one.name: problem for one in SITUATIONS if (problem := wrong(one))}
    right = len(SITUATIONS) - len(failures)
    with capsys.disabled():
        print(f"\nexplain: right in {right} of {len(SITUATIONS)} situations (at least {LEAST})")  # noqa: T201
    assert right >= LEAST, "\n".join(f"{name}: {problem}" for name, problem in failures.items())
