"""What holds for every pod: done twice is done once, and what is admitted passes the guard."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.decide.admission.asking import (
    ALICE,
    BY_INDEX,
    MISSING,
    POLICY,
    SCHEDULER,
    a_claim,
    admit,
    claiming,
    env_of,
    guarded,
    reference,
)
from ullage.kube.client.resource import JsonObject
from ullage.model.admission import AS_IT_IS, OUTPUTS
from ullage.model.allocation import CLAIM, VISIBLE_DEVICES
from ullage.testing.builders import GPU, a_container

NAMES = ["NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "LOG"]
entries = st.builds(
    lambda name, source: {"name": name, **source},
    st.sampled_from(NAMES),
    st.sampled_from([{}, {"value": "0"}, reference(VISIBLE_DEVICES), {"valueFrom": {"configMapKeyRef": {"key": "k"}}}]),
)


@st.composite
def containers(draw: st.DrawFn) -> JsonObject:
    gpus = draw(st.integers(0, 4))
    asked = {GPU: str(gpus)} if gpus else None
    made = a_container(draw(st.sampled_from("abc")), requests=asked, limits=asked)
    env = draw(st.none() | st.lists(entries, max_size=4))
    return made | ({} if env is None else {"env": env})


@st.composite
def pods(draw: st.DrawFn) -> JsonObject:
    notes = draw(st.dictionaries(st.sampled_from([*OUTPUTS, "mine"]), st.sampled_from(["", "n:0", "x"])))
    inits = draw(st.lists(st.tuples(containers(), st.booleans()), max_size=2))
    spec: dict[str, Any] = {"containers": draw(st.lists(containers(), min_size=1, max_size=3))}
    spec["initContainers"] = [one | ({"restartPolicy": "Always"} if stays else {}) for one, stays in inits]
    return claiming(annotations=notes, **spec)


claims = st.just(MISSING) | st.builds(a_claim, st.integers(1, 8))
policies = st.sampled_from([POLICY, BY_INDEX])


@given(pods(), claims, policies, st.sampled_from([ALICE, SCHEDULER]))
def test_twice_is_once(pod: JsonObject, found: Any, policy: Any, user: str) -> None:
    stored, _ = admit(pod, found, user=user, policy=policy)
    assert admit(stored, found, user=user, policy=policy)[0] == stored


@given(pods(), claims, policies, policies)
def test_what_was_changed_passes_the_guard_of_every_replica(pod: JsonObject, found: Any, ours: Any, other: Any) -> None:
    stored, _ = admit(pod, found, policy=ours)
    assert guarded(stored, policy=other) == AS_IT_IS


@given(pods(), claims, policies)
def test_nothing_else_of_a_pod_changes(pod: JsonObject, found: Any, policy: Any) -> None:
    stored, _ = admit(pod, found, policy=policy)
    names = set(NAMES[: 3 if policy is BY_INDEX else 2])
    for key in ("containers", "initContainers"):
        for before, after in zip(pod["spec"][key], stored["spec"][key], strict=True):
            assert before.keys() - {"env", "resources"} == after.keys() - {"env", "resources"}
            kept = [entry for entry in env_of(before) if entry["name"] not in names]
            assert [entry for entry in env_of(after) if entry["name"] not in names] == kept
    kept_notes = {key: value for key, value in pod["metadata"]["annotations"].items() if key in (CLAIM, "mine")}
    assert stored["metadata"]["annotations"] == kept_notes
