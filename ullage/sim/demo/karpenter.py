"""Karpenter: GPU requests that find no GPU make Karpenter buy nodes, and get them, though a rival waits."""

from ullage.config.karpenter import KarpenterSettings
from ullage.config.settings import Settings
from ullage.kube.client.resource import JsonObject
from ullage.model.karpenter import GPU_TAINT, NodePoolMapping
from ullage.model.provisioner import GpuTemplate
from ullage.model.resources import GPU
from ullage.model.units import Bytes, Micros
from ullage.sim.demo import manifests as make
from ullage.sim.demo.story import CreateManifest, DeleteManifest, Story, StoryStep
from ullage.sim.karpenter.timings import KarpenterTimings
from ullage.sim.world.karpenter import gpu_instance_type, node_pool_manifest
from ullage.sim.world.spec import KarpenterSpec, WorldSpec

_GIB = 1 << 30
_POOL, _MODEL = "gpu-h100", make.H100.model
_TOLERATED = [{"key": GPU_TAINT, "operator": "Exists"}]
_CLASS = "ullage-smart-pod"
_ANY_GPU = {"example.com/any": "gpu"}
"""Label that nodes give themselves, and that the rival selects."""


def _tolerating(pod: JsonObject) -> JsonObject:
    """The pod, with the toleration that GPU pods have in clusters whose GPU nodes are tainted."""
    return pod | {"spec": pod["spec"] | {"tolerations": _TOLERATED}}


def _rival() -> JsonObject:
    """A pod of kube-scheduler that waits for any GPU node of the pool, and never makes Karpenter buy one."""
    body = _tolerating(make.pod("rival"))
    limits = {"limits": {GPU: "1"}, "requests": {"cpu": "1", GPU: "1"}}
    container = body["spec"]["containers"][0] | {"resources": limits}
    spec = {"schedulerName": "default-scheduler", "containers": [container], "nodeSelector": _ANY_GPU}
    meta = {key: value for key, value in body["metadata"].items() if key != "annotations"}
    return body | {"metadata": meta, "spec": body["spec"] | spec}


def _asked(name: str, count: int, **more: str | int) -> tuple[CreateManifest, CreateManifest]:
    """A claim and its pod."""
    gang, members = str(more.get("gang", "")), int(more.get("members", 0))
    wanted = make.claim(name, count, "H100", gang=gang, members=members)
    return CreateManifest(wanted), CreateManifest(_tolerating(make.pod(name)))


def _world(seed: int) -> WorldSpec:
    mapping = NodePoolMapping(
        name="h100", node_pool=_POOL, gpu_model=_MODEL, gpu_memory=Bytes(80 * _GIB), price_per_gpu=Micros(12_290_000)
    )
    ours = KarpenterSettings(enabled=True, node_pools={"h100": mapping}, priority_class=_CLASS)
    karpenter = KarpenterSpec(
        types=(gpu_instance_type("h100-1", 1, 12.3), gpu_instance_type("h100-8", 8, 98.3)),
        gpus=GpuTemplate(model=_MODEL, count=8, memory=Bytes(80 * _GIB), islands=1, bandwidth=450),
        timings=KarpenterTimings(registration=60.0, initialisation=5.0),
        boot_labels=_ANY_GPU,
    )
    return WorldSpec(
        seed=seed,
        objects=(make.priority_class(_CLASS, 0), node_pool_manifest(_POOL)),
        settings=Settings(karpenter=ours),
        karpenter=karpenter,
    )


_STEPS = (
    StoryStep(
        at=0,
        name="beginning",
        caption="There is no GPU node. Karpenter has a NodePool for H100 nodes, and buys when a pod needs one.",
    ),
    StoryStep(
        at=20,
        name="request",
        caption="A pod claims one H100 and fits nowhere. A smart pod asks Karpenter for the node: watch its state. "
        "Beside it waits a rival, a GPU pod of kube-scheduler: the hand-over taint keeps it off the new node.",
        steps=(CreateManifest(_rival()), *_asked("train", 1)),
    ),
    StoryStep(
        at=150,
        name="gang",
        caption="A gang of two pods with eight GPUs each: both smart pods go out together, and neither pod is bound "
        "before both nodes have reported their GPUs.",
        steps=(*_asked("duo-0", 8, gang="duo", members=2), *_asked("duo-1", 8, gang="duo", members=2)),
    ),
    StoryStep(
        at=330,
        name="large",
        caption="Sixteen GPUs on one node: no node of the NodePool is that large. The owner is told at once, and "
        "nothing is bought. Click the pod, or run ullage explain pod/huge.",
        steps=_asked("huge", 16),
    ),
    StoryStep(
        at=420,
        name="orphan",
        caption="A pod asks for a node, and will be deleted while the node is on its way.",
        steps=_asked("gone", 1),
    ),
    StoryStep(
        at=445,
        name="heir",
        caption="Now it is deleted. Its node is not wasted: the next request waits for it instead of buying another.",
        steps=(DeleteManifest(make.pod("gone")), *_asked("heir", 1)),
    ),
    StoryStep(
        at=600,
        name="empty",
        caption="Everything is deleted. NodeClaims and nodes are Karpenter's: it takes them away when they have been "
        "empty for half a minute.",
        steps=tuple(DeleteManifest(make.pod(name)) for name in ("train", "duo-0", "duo-1", "huge", "heir")),
    ),
    StoryStep(
        at=900,
        name="yours",
        caption="That was the story. The cluster goes on: apply a claim of your own with the command in the "
        "terminal, and watch Karpenter buy for it. Ctrl-C ends it and leaves nothing behind.",
    ),
)

KARPENTER_STORY = Story(
    name="karpenter",
    summary="requests without a GPU make Karpenter buy nodes, and get them before anybody else",
    world=_world,
    story_steps=_STEPS,
)
