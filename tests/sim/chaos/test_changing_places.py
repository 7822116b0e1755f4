"""Stories in which jobs change places: an empty pool node is promised to a pod while nobody seems to need it."""

import pytest

from ullage.sim.chaos.changing_places import change_of_places
from ullage.sim.chaos.generate import generated_story
from ullage.sim.chaos.story import ChaosNode, FaultKind

NODES = (ChaosNode(gpus=4, islands=1, mig=False), ChaosNode(gpus=8, islands=1, mig=True))
SEEDS = [seed for seed in range(200) if change_of_places(seed, NODES) is not None]


def test_one_seed_in_five_has_such_a_moment() -> None:
    assert 20 <= len(SEEDS) <= 60


@pytest.mark.parametrize("seed", SEEDS[:5])
def test_in_its_moment_one_leaves_another_comes_room_gets_free_and_a_process_stands_still(seed: int) -> None:
    found = change_of_places(seed, NODES)
    assert found is not None
    jobs = {job.name: job for job in found.jobs}
    assert jobs.keys() == {"full0", "leaver", "heir"}, "nobody gets whole GPUs of a node that is partitioned"
    assert jobs["leaver"].leaves_at == found.at < found.stopped.at < jobs["heir"].at
    assert (jobs["full0"].leaves_at or 0.0) > jobs["heir"].at
    assert (found.stopped.kind, found.stopped.only) == (FaultKind.FREEZE_AFTER_CALL, "create")


def test_other_jobs_of_such_a_story_come_when_it_is_over() -> None:
    for seed in range(60):
        story = generated_story(seed)
        heir = next((job for job in story.jobs if job.name == "heir"), None)
        if heir is None:
            continue
        own = {"leaver", "heir", *(f"full{number}" for number in range(len(story.nodes)))}
        assert all(job.at > heir.at + 100 for job in story.jobs if job.name not in own)
        assert (len(story.pools), story.pools[0].least, story.karpenter) == (1, 0, False)
