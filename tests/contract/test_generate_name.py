"""generateName: a prefix of ours, an end of the server's."""

import re

from tests.contract.expect import refused
from tests.contract.kinds import CONFIG_MAP, POD
from ullage.errors import Invalid
from ullage.kube.client.api import KubeApi
from ullage.testing.builders import a_config_map, a_pod, with_meta


def nameless(prefix: str) -> dict[str, object]:
    return {"metadata": {"generateName": prefix}}


async def test_name_is_the_prefix_and_five_characters(api: KubeApi, ns: str) -> None:
    made = await api.create(CONFIG_MAP, nameless("batch-"), ns)
    # The alphabet has no vowels and nothing that looks like something else.
    assert re.fullmatch(r"batch-[bcdfghjklmnpqrstvwxz2456789]{5}", made["metadata"]["name"])
    assert made["metadata"]["generateName"] == "batch-"


async def test_two_of_one_prefix_have_different_names(api: KubeApi, ns: str) -> None:
    made = [await api.create(CONFIG_MAP, nameless("a-"), ns) for _ in range(5)]
    assert len({one["metadata"]["name"] for one in made}) == 5


async def test_given_name_wins_over_the_prefix(api: KubeApi, ns: str) -> None:
    made = await api.create(CONFIG_MAP, with_meta(a_config_map("chosen"), generateName="a-"), ns)
    assert made["metadata"]["name"] == "chosen"
    assert made["metadata"]["generateName"] == "a-"


async def test_long_prefix_is_cut_so_that_the_name_fits_a_label(api: KubeApi, ns: str) -> None:
    made = await api.create(CONFIG_MAP, nameless("p" * 70), ns)
    assert re.fullmatch(r"p{58}\w{5}", made["metadata"]["name"])


async def test_prefix_ending_in_a_dot_is_refused(api: KubeApi, ns: str) -> None:
    with refused(Invalid, reason="Invalid", causes=[("metadata.generateName", "FieldValueInvalid")]):
        await api.create(CONFIG_MAP, nameless("a."), ns)


async def test_bad_prefix_is_refused_with_the_name_it_makes(api: KubeApi, ns: str) -> None:
    causes = [("metadata.generateName", "FieldValueInvalid"), ("metadata.name", "FieldValueInvalid")]
    with refused(Invalid, reason="Invalid", causes=causes):
        await api.create(CONFIG_MAP, nameless("UP_"), ns)


async def test_pods_take_prefixes_too(api: KubeApi, ns: str) -> None:
    body = a_pod("") | {"metadata": {"generateName": "worker-", "labels": {"app": "a"}}}
    made = await api.create(POD, body, ns)
    assert made["metadata"]["name"].startswith("worker-")
    assert made["metadata"]["labels"] == {"app": "a"}
