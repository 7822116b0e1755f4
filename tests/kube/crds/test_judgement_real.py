"""Our judgement of a claim is the API server's: what it refuses we find wrong in the same fields, and nothing else.

And what it accepts comes back through our structs as it was, with the defaults filled in.
"""

import copy
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ullage.errors import Invalid, Unreadable
from ullage.kube.client.api import KubeApi
from ullage.kube.client.json_codec import to_json
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import GPU_CLAIMS
from ullage.kube.crds.check import violations
from ullage.kube.objects.gpu import GpuClaim
from ullage.kube.read.gpu import read_claim

pytestmark = pytest.mark.real

LEFT_OUT = object()

SOUND: dict[str, JsonObject] = {
    "empty": {},
    "four-whole-gpus": {"devices": {"count": 4, "policy": "spread", "model": "A 1", "memory": "40Gi"}},
    "share-of-memory": {"devices": {"exclusivity": "Shared", "memory": "0.5Gi"}},
    "share-of-compute": {"devices": {"exclusivity": "Shared", "tflops": 3}},
    "mig-instance": {"devices": {"exclusivity": "MIG", "memory": 1024, "tflops": 3}},
    "named-gpus": {"devices": {"count": 2, "policy": "preferIds", "preferIds": [3, 1]}},
    "member-of-a-gang": {"gangRef": "g", "gangMinMember": 4, "topology": {"mode": "Required", "minBandwidthGBps": 3}},
}
ODD: dict[str, list[Any]] = {
    "devices": [LEFT_OUT],
    "devices.count": [LEFT_OUT, 0, 1, 2, 16, 17],
    "devices.policy": [LEFT_OUT, "contiguous", "preferIds", "none"],
    "devices.preferIds": [LEFT_OUT, [], [0], [0, 15], [0, 16], [-1, 0], [1, 1], [2, 1, 0]],
    "devices.exclusivity": [LEFT_OUT, "Shared", "MIG", "shared"],
    "devices.memory": [
        LEFT_OUT,
        "1E",
        "5.",
        ".5k",
        "1e99",
        "1e100",
        "0",
        "0.0Gi",
        "0e9",
        "1Zi",
        "-1",
        "1m",
        "9" * 33,
        1,
        0,
    ],
    "devices.tflops": [LEFT_OUT, 1, 0],
    "devices.model": ["x" * 128, "x" * 129],
    "selector.matchLabels": [
        {"zone": ""},
        {"a.b/Zone_1": "A.b"},
        {"-zone": "a"},
        {"": "a"},
        {"zone": "-"},
        {"a/b/c": "d"},
    ],
    "topology.mode": ["Ignore", "any"],
    "topology.minBandwidthGBps": [0, -1],
    "gangRef": [LEFT_OUT, "a.b", "A"],
    "gangMinMember": [LEFT_OUT, 1, 0],
    "pool": ["p", "p.", "x" * 253, "x" * 254],
}
"""What is put in place of something sound: some of it wrong, some of it only beside something else."""


def changed(sound: JsonObject, oddities: Iterable[tuple[str, Any]]) -> JsonObject:
    """A copy with these fields replaced or left out."""
    spec = copy.deepcopy(sound)
    for path, value in oddities:
        *parents, last = path.split(".")
        place = spec
        for parent in parents:
            place = place.setdefault(parent, {})
        if value is LEFT_OUT:
            place.pop(last, None)
        else:
            place[last] = value
    return spec


async def tried(api: KubeApi, spec: JsonObject) -> JsonObject | Invalid:
    """What the server would store, or its refusal."""
    try:
        return await api.create(GPU_CLAIMS.whole(), {"metadata": {"name": "a"}, "spec": spec}, "default", dry_run=True)
    except Invalid as invalid:
        return invalid


async def judge(api: KubeApi, spec: JsonObject) -> bool:
    """Whether the server accepts it. Fails where we judge otherwise."""
    ours = msgspec.convert({"metadata": {"name": "a"}, "spec": spec}, GpuClaim)
    stored = await tried(api, spec)
    if isinstance(stored, Invalid):
        theirs = {cause.field.partition("[")[0] for cause in stored.causes}
        found = {violation.field.partition("[")[0] for violation in violations(ours.spec, "spec")}
        # With a word outside a closed list the server does not come to check rules, and says so with "<nil>".
        assert (theirs - {"<nil>"} <= found) if "<nil>" in theirs else (theirs == found), (spec, stored.message)
        with pytest.raises(Unreadable):
            read_claim(ours)
        return False
    back = msgspec.convert(stored, GpuClaim)
    assert back.spec == ours.spec, spec
    assert read_claim(back).ask == read_claim(ours).ask, spec
    assert msgspec.convert(await tried(api, to_json(back.spec)), GpuClaim).spec == back.spec, spec
    return True


@pytest.mark.parametrize("sound", SOUND.values(), ids=list(SOUND))
async def test_a_sound_claim_with_any_one_oddity(api: KubeApi, sound: JsonObject) -> None:
    assert await judge(api, sound)
    odd = [changed(sound, [(path, value)]) for path, values in ODD.items() for value in values]
    verdicts = [await judge(api, spec) for spec in odd]
    assert 0 < sum(verdicts) < len(verdicts)


oddities = st.sampled_from(sorted(ODD)).flatmap(lambda path: st.tuples(st.just(path), st.sampled_from(ODD[path])))


@given(st.sampled_from(list(SOUND.values())), st.lists(oddities, min_size=2, max_size=4))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_a_claim_with_several_oddities(api: KubeApi, sound: JsonObject, several: list[tuple[str, Any]]) -> None:
    await judge(api, changed(sound, several))
