"""Expectations, claims and names of templates."""

import pytest

from tests.sim.controllers.things import at, owner, pod, replica_set
from ullage.model.fact_event import ObjectKey
from ullage.model.selector import parse_selector
from ullage.sim.controllers.expectations import Expectations
from ullage.sim.controllers.ownership import claim, pod_from_template, template_hash

KEY = ObjectKey("default", "web")
MINE = owner("ReplicaSet", "web")
OTHERS = owner("ReplicaSet", "other")


@pytest.mark.parametrize(
    ("child", "mine", "adopted", "released"),
    [
        pytest.param(pod("a", owned_by=MINE), True, False, False, id="ours-and-matching"),
        pytest.param(pod("a", owned_by=MINE, labels={"app": "x"}), False, False, True, id="ours-no-longer-matching"),
        pytest.param(pod("a", owned_by=OTHERS), False, False, False, id="somebody-elses"),
        pytest.param(pod("a"), False, True, False, id="an-orphan-that-matches"),
        pytest.param(pod("a", going=1), False, False, False, id="an-orphan-that-is-going"),
        pytest.param(pod("a", labels={"app": "x"}), False, False, False, id="an-orphan-that-does-not-match"),
    ],
)
def test_claims(child: object, mine: bool, adopted: bool, released: bool) -> None:
    claims = claim(replica_set().metadata, parse_selector("app=web"), [child])  # type: ignore[type-var]  # pods all
    assert (bool(claims.mine), bool(claims.adopt), bool(claims.release)) == (mine, adopted, released)


def test_an_owner_that_is_going_neither_adopts_nor_releases() -> None:
    going = replica_set(meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    children = [pod("orphan"), pod("astray", owned_by=MINE, labels={"app": "x"})]
    claims = claim(going.metadata, parse_selector("app=web"), children)
    assert (claims.adopt, claims.release) == ((), ())


def test_expectations_are_met_when_every_act_was_seen() -> None:
    open_acts = Expectations()
    open_acts.expect(KEY, creations=2, deletions=frozenset({"uid-a"}), now=at(0))
    steps = [open_acts.met(KEY, at(1))]
    open_acts.created(KEY)
    open_acts.created(KEY)
    steps.append(open_acts.met(KEY, at(1)))
    open_acts.deleted(KEY, "uid-a")
    steps.append(open_acts.met(KEY, at(1)))
    assert steps == [False, False, True]


def test_what_is_never_seen_is_given_up_after_five_minutes() -> None:
    open_acts = Expectations()
    open_acts.expect(KEY, creations=1, deletions=frozenset(), now=at(0))
    assert (open_acts.met(KEY, at(300)), open_acts.met(KEY, at(301))) == (False, True)


def test_equal_templates_have_equal_names_and_others_do_not() -> None:
    one, same = {"spec": {"a": 1, "b": 2}}, {"spec": {"b": 2, "a": 1}}
    assert template_hash(one) == template_hash(same)
    assert len({template_hash(one), template_hash({"spec": {"a": 1}}), template_hash(one, collisions=1)}) == 3


def test_a_pod_made_from_a_template_shares_nothing_that_changes() -> None:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}
    body = pod_from_template(template, MINE, generate_name="web-")
    body["metadata"]["labels"]["app"] = "changed"
    body["spec"]["nodeName"] = "changed"
    assert template == {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}
