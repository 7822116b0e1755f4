"""Shapes: equal ones are one object, for as long as somebody needs it."""

import gc
import weakref

import msgspec
import pytest

from ullage.model.claim import DeviceRequest
from ullage.model.node import Taint
from ullage.model.resources import GPU
from ullage.model.selector import Operator, Requirement, Selector
from ullage.model.shape import Shape, asking_for, interned, own_labels
from ullage.model.shape_terms import HostPort, NodeTerm, PodMatcher, PodTerm, SpreadConstraint, Toleration

WEB = Selector((Requirement("app", Operator.IN, ("web",)),))


def a_rich_shape() -> Shape:
    return Shape(
        requests=(("cpu", 500), ("memory", 10**12)),
        node_affinity=(NodeTerm(labels=(Requirement("zone", Operator.EXISTS),)),),
        tolerations=(Toleration(key="gpu", exists=True),),
        host_ports=(HostPort(port=80),),
        near=(PodTerm(topology_key="zone", pods=PodMatcher(namespaces=("n",), selector=WEB)),),
        spread=(SpreadConstraint(topology_key="zone", selector=WEB),),
        devices=DeviceRequest(count=2),
        namespace="n",
        labels=(("app", "web"),),
    )


def test_equal_shapes_are_one_object() -> None:
    assert interned(a_rich_shape()) is interned(a_rich_shape())
    assert interned(a_rich_shape()) is not interned(Shape())


def test_a_shape_nobody_has_is_forgotten() -> None:
    shape = interned(Shape(requests=(("never-seen-before", 1),)))
    watched = weakref.ref(shape)
    del shape
    gc.collect()
    assert watched() is None


def test_a_shape_survives_being_written_down() -> None:
    written = msgspec.json.encode(a_rich_shape())
    assert msgspec.json.decode(written, type=Shape) == a_rich_shape()
    assert msgspec.json.encode(Shape()) == b"{}"


def test_only_labels_that_are_looked_at_are_part_of_a_shape() -> None:
    labels = {"app": "web", "pod-name": "web-0", "tier": "1"}
    assert own_labels(labels, ["tier", "app", "absent", "app"]) == (("app", "web"), ("tier", "1"))


@pytest.mark.parametrize(
    ("requested", "count", "needed"),
    [
        pytest.param(0, 2, 2000, id="the-claim-alone"),
        pytest.param(4000, 2, 4000, id="the-request-is-larger"),
        pytest.param(1000, 8, 8000, id="the-claim-is-larger"),
    ],
)
def test_a_claim_raises_the_need_of_gpus(requested: int, count: int, needed: int) -> None:
    plain = interned(Shape(requests=((GPU, requested),) if requested else ()))
    shape = asking_for(plain, DeviceRequest(count=count), (("pool", "a"),))
    assert dict(shape.requests) == {GPU: needed}
    assert shape.node_selector == (("pool", "a"),)
    assert shape is asking_for(plain, DeviceRequest(count=count), (("pool", "a"),))


def test_a_claim_and_a_pod_that_want_different_nodes_get_none() -> None:
    shape = asking_for(Shape(node_selector=(("pool", "b"),)), DeviceRequest(), (("pool", "a"),))
    assert shape.node_selector == (("pool", "a"), ("pool", "b"))


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        pytest.param(Toleration(), False, id="nothing-said-means-no-value"),
        pytest.param(Toleration(exists=True), True, id="everything"),
        pytest.param(Toleration(key="k", value="v"), True, id="equal"),
        pytest.param(Toleration(key="k", exists=True, effect="NoExecute"), False, id="another-effect"),
    ],
)
def test_tolerations(toleration: Toleration, tolerates: bool) -> None:
    assert toleration.tolerates(Taint("k", "v", "NoSchedule")) is tolerates
