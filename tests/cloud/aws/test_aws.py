"""EC2 by boto3, over HTTP to moto's server, with what moto does not do put in between."""

import itertools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import boto3  # type: ignore[import-untyped]  # it has no types
import pytest
from aiohttp import web

from tests.cloud.aws.ec2_proxy import Ec2Proxy
from tests.cloud.aws.moto_server import running_moto
from tests.cloud.benches import H100S, Requests
from ullage.clock import WallClock
from ullage.cloud.api import CloudProvider, CreateRequest, PoolRef, RequestRejected
from ullage.cloud.aws.calls import fleet_arguments, run_arguments
from ullage.cloud.aws.errors import error_of
from ullage.cloud.aws.provider import AwsProvider, AwsSettings
from ullage.errors import UserError
from ullage.model.instance import InstanceState
from ullage.model.provisioner import CapacityType, CloudFailure
from ullage.testing.cloud_contract import CloudContract, CloudTrouble, ProviderBench, alive

AN_IMAGE = "ami-03cf127a"
"""One that moto knows from the beginning."""


CLUSTERS = itertools.count()


@pytest.fixture(scope="session")
def moto() -> Iterator[str]:
    """One account for all tests, each with a cluster of its own in it; with a launch template to buy with."""
    with running_moto() as url, pytest.MonkeyPatch.context() as credentials:
        for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            credentials.setenv(key, "testing")
        _make_launch_template(url)
        yield url


@pytest.fixture
async def proxy(moto: str) -> AsyncIterator[tuple[Ec2Proxy, str]]:
    """A proxy before the account, with its address."""
    between = Ec2Proxy(f"{moto}/")
    application = web.Application()
    application.router.add_route("*", "/{tail:.*}", between.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    address = runner.addresses[0]
    yield between, f"http://127.0.0.1:{address[1]}"
    await runner.cleanup()


class AwsBench(Requests):
    def __init__(self, provider: AwsProvider, proxy: Ec2Proxy, purchase: str) -> None:
        parameters = {"launchTemplate": "gpu-nodes", "instanceTypes": "p5.48xlarge", "purchase": purchase}
        super().__init__({"one": parameters, "two": parameters})
        self.aws = provider
        self.proxy = proxy

    @property
    def provider(self) -> CloudProvider:
        return self.aws

    async def settle(self) -> None:
        return None

    async def trouble(self, trouble: CloudTrouble) -> None:
        self.proxy.trouble = trouble


@pytest.fixture(params=["Fleet", "Run"])
async def ec2(proxy: tuple[Ec2Proxy, str], request: pytest.FixtureRequest) -> AsyncIterator[AwsBench]:
    """A provider of a cluster of its own."""
    between, url = proxy
    settings = AwsSettings(cluster=f"ours-{next(CLUSTERS)}", region="us-east-1", endpoint=url, seconds=20.0)
    provider = AwsProvider(settings, WallClock())
    yield AwsBench(provider, between, request.param)
    await provider.close()


def _make_launch_template(url: str) -> None:
    client: Any = boto3.client("ec2", region_name="us-east-1", endpoint_url=url)
    client.create_launch_template(LaunchTemplateName="gpu-nodes", LaunchTemplateData={"ImageId": AN_IMAGE})
    client.close()


class TestAws(CloudContract):
    @pytest.fixture
    def bench(self, ec2: AwsBench) -> ProviderBench:
        return ec2


async def test_instances_are_tagged_as_ours_and_others_are_not_seen(ec2: AwsBench) -> None:
    other = AwsProvider(
        AwsSettings(cluster="theirs", region="us-east-1", endpoint=ec2.aws._settings.endpoint), WallClock()
    )
    await ec2.aws.create(ec2.request(ec2.pool("one"), 1, "token-a"))
    await other.create(ec2.request(ec2.pool("one"), 1, "token-b"))
    (ours,) = await alive(ec2)
    assert (ours.pool, ours.token, ours.state) == ("one", "token-a", InstanceState.RUNNING)
    assert ours.zone.startswith("us-east-1")
    assert ours.provider_id == f"aws:///{ours.zone}/{ours.id}"
    assert ours.node.endswith(".internal")
    await other.close()


async def test_one_call_buys_them_all(ec2: AwsBench) -> None:
    await ec2.aws.create(ec2.request(ec2.pool("one"), 5, "token-a"))
    assert ec2.proxy.actions() in (["CreateFleet"], ["RunInstances"])
    assert ec2.proxy.calls[0].fields["ClientToken"] == "token-a"


async def test_an_instance_ec2_does_not_know_keeps_no_other_alive(ec2: AwsBench) -> None:
    await ec2.aws.create(ec2.request(ec2.pool("one"), 2, "token-a"))
    ids = [one.id for one in await alive(ec2)]
    await ec2.aws.delete([ids[0], "i-0123456789abcdef0", "not-an-instance", ids[1]])
    assert await alive(ec2) == []


async def test_templates_come_from_the_instance_types(ec2: AwsBench) -> None:
    pool = PoolRef(name="one", parameters={"instanceTypes": "p5.48xlarge, m5.large, g5.xlarge"})
    eight, one = await ec2.aws.templates(pool)
    assert (eight.gpus.model, eight.gpus.count, eight.gpus.memory >> 30) == ("H100", 8, 80)
    assert (eight.resources["cpu"], eight.labels) == (192_000, {"node.kubernetes.io/instance-type": "p5.48xlarge"})
    assert (one.gpus.model, one.gpus.count) == ("A10G", 1)


async def test_a_launch_template_that_is_not_there_is_refused(ec2: AwsBench) -> None:
    pool = PoolRef(name="one", parameters=dict(ec2.pool("one").parameters) | {"launchTemplate": "nowhere"})
    with pytest.raises(RequestRejected, match="LaunchTemplate"):
        await ec2.aws.create(ec2.request(pool, 1, "token-a"))


def a_request(zone: str = "", least: int = 1, *, spot: bool = False, **parameters: str) -> CreateRequest:
    kind = CapacityType.SPOT if spot else CapacityType.ON_DEMAND
    template = type(H100S)(gpus=H100S.gpus, capacity_type=kind)
    pool = PoolRef(name="one", parameters={"launchTemplate": "lt"} | parameters)
    return CreateRequest(pool=pool, count=4, token="t", template=template, least=least, zone=zone)


@pytest.mark.parametrize(
    ("request_", "overrides"),
    [
        pytest.param(a_request(), None, id="whatever-the-launch-template-says"),
        pytest.param(
            a_request(instanceTypes="a,b", subnets="s1,s2"),
            [
                {"InstanceType": "a", "SubnetId": "s1"},
                {"InstanceType": "a", "SubnetId": "s2"},
                {"InstanceType": "b", "SubnetId": "s1"},
                {"InstanceType": "b", "SubnetId": "s2"},
            ],
            id="every-type-in-every-subnet",
        ),
        pytest.param(a_request("z1", subnets="z1:s1,z2:s2"), [{"SubnetId": "s1"}], id="subnets-of-a-zone"),
        pytest.param(a_request("z1"), [{"AvailabilityZone": "z1"}], id="a-zone-without-subnets"),
    ],
)
def test_where_and_what_a_fleet_may_buy(request_: CreateRequest, overrides: list[dict[str, str]] | None) -> None:
    (config,) = fleet_arguments(request_, "ours")["LaunchTemplateConfigs"]
    assert config.get("Overrides") == overrides


def test_a_gang_is_bought_whole() -> None:
    fleet = fleet_arguments(a_request(least=3), "ours")
    assert fleet["OnDemandOptions"]["MinTargetCapacity"] == 3
    assert fleet["OnDemandOptions"]["SingleInstanceType"] is True
    assert run_arguments(a_request(least=3), "ours")["MinCount"] == 3


def test_spot_is_asked_for_as_spot() -> None:
    fleet = fleet_arguments(a_request(spot=True), "ours")
    assert fleet["TargetCapacitySpecification"]["DefaultTargetCapacityType"] == "spot"
    assert fleet["SpotOptions"]["AllocationStrategy"] == "price-capacity-optimized"
    assert run_arguments(a_request(spot=True), "ours")["InstanceMarketOptions"]["MarketType"] == "spot"


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        pytest.param(a_request("z3", subnets="z1:s1"), "has none in zone z3", id="no-subnet-in-the-zone"),
        pytest.param(a_request(launchTemplate=""), "launchTemplate is not set", id="no-launch-template"),
    ],
)
def test_parameters_that_cannot_work_are_refused_by_name(request_: CreateRequest, says: str) -> None:
    with pytest.raises(RequestRejected, match=f"pool one: provider parameter .*{says}"):
        fleet_arguments(request_, "ours")


def test_a_cluster_without_a_name_is_refused() -> None:
    with pytest.raises(UserError, match="cluster is not set"):
        AwsProvider(AwsSettings(cluster=""), WallClock())


@pytest.mark.parametrize(
    ("code", "status", "failure"),
    [
        pytest.param("InsufficientInstanceCapacity", 500, CloudFailure.CAPACITY, id="no-capacity-is-no-broken-server"),
        pytest.param("VcpuLimitExceeded", 400, CloudFailure.QUOTA, id="quota"),
        pytest.param("RequestLimitExceeded", 503, CloudFailure.THROTTLED, id="throttled"),
        pytest.param("InternalError", 500, None, id="broken"),
        pytest.param("", 502, None, id="a-proxy-that-is-broken"),
        pytest.param("UnauthorizedOperation", 403, CloudFailure.REFUSED, id="not-allowed"),
        pytest.param("InvalidParameterValue", 400, CloudFailure.REFUSED, id="nonsense"),
    ],
)
def test_codes(code: str, status: int, failure: CloudFailure | None) -> None:
    assert error_of(code, "", status=status).failure is failure
