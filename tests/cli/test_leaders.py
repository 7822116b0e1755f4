"""Who decides, as `explain` reads it from the Leases of elections."""

import random

import pytest

from ullage.cli.cluster_input import scheduler_leaders
from ullage.kube.client.resources import LEASES, NAMESPACES
from ullage.kube.client.rest import RestApi
from ullage.kube.timestamps import write_micro_time
from ullage.model.units import Instant
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.virtual_time import loop_clock, run_virtual
from ullage.testing.builders import a_namespace

FRESH, OLD = 5.0, 300.0


def asked(*leases: tuple[str, str, float]) -> tuple[frozenset[str], str]:
    """Names and complaint for Leases by name, holder and seconds since they were renewed."""

    async def story() -> tuple[frozenset[str], str]:
        clock = loop_clock()
        api = RestApi(InMemoryTransport(SimulatedApiServer(clock, seed=1)), rng=random.Random(1))
        await api.create(NAMESPACES, a_namespace("ullage-system"))
        for name, holder, age in leases:
            spec = {
                "holderIdentity": holder,
                "leaseDurationSeconds": 15,
                "renewTime": write_micro_time(Instant(clock.now() - age)),
            }
            await api.create(LEASES, {"metadata": {"name": name}, "spec": spec}, "ullage-system")
        return await scheduler_leaders(api, clock.now())

    return run_virtual(story())


@pytest.mark.parametrize(
    ("leases", "names", "said"),
    [
        pytest.param([], set(), "", id="nothing-is-known"),
        pytest.param([("other", "x", OLD)], set(), "", id="other-leases-do-not-count"),
        pytest.param([("ullage-scheduler", "one", FRESH)], {"gpu-scheduler"}, "", id="somebody-leads"),
        pytest.param(
            [("ullage-scheduler", "one", FRESH), ("ullage-scheduler-spread", "two", OLD)],
            {"gpu-scheduler", "spread"},
            "",
            id="one-of-two-leads",
        ),
        pytest.param(
            [("ullage-scheduler", "one", OLD)],
            {"gpu-scheduler"},
            "Lease ullage-scheduler in namespace ullage-system was renewed 300 s ago and lasts 15 s",
            id="the-leader-is-gone",
        ),
        pytest.param(
            [("ullage-scheduler", "", FRESH)],
            {"gpu-scheduler"},
            "Lease ullage-scheduler in namespace ullage-system is held by nobody",
            id="nobody-holds-it",
        ),
    ],
)
def test_leaders(leases: list[tuple[str, str, float]], names: set[str], said: str) -> None:
    found, complaint = asked(*leases)
    assert found == names
    assert complaint.startswith(said)
    assert bool(complaint) == bool(said)
