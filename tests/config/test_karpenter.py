"""The section `karpenter`: what it says becomes the core's policy, and what is wrong is named by field."""

import pytest

from ullage.config.karpenter import NodePools
from ullage.config.loading import read_settings
from ullage.config.yaml_document import SettingsError
from ullage.decide.karpenter.policy import KarpenterPolicy
from ullage.model.karpenter import NodePoolMapping
from ullage.model.lifecycles import SmartPodState
from ullage.model.units import Bytes, Micros

WHOLE = """
karpenter:
  enabled: true
  namespace: gpu-system
  batchWindow: 500ms
  inventoryDeadline: 7m
  nodePools:
    a100:
      nodePool: gpu-a100
      gpuModel: NVIDIA A100-SXM4-80GB
      gpuMemory: 80Gi
      tflops: 312
      gpusPerNode: 8
      pricePerGpu: 3.40
      labels: {karpenter.k8s.aws/instance-gpu-name: a100}
      instanceTypes: [p4de.24xlarge]
      memoryFromVram: true
"""


def test_what_is_said_is_what_the_core_takes() -> None:
    policy = KarpenterPolicy.of(read_settings(WHOLE, "file").karpenter)
    assert policy.mappings == (
        NodePoolMapping(
            name="a100",
            node_pool="gpu-a100",
            gpu_model="NVIDIA A100-SXM4-80GB",
            gpu_memory=Bytes(80 << 30),
            tflops=312,
            gpus_per_node=8,
            price_per_gpu=Micros(3_400_000),
            labels={"karpenter.k8s.aws/instance-gpu-name": "a100"},
            instance_types=("p4de.24xlarge",),
            memory_from_vram=True,
        ),
    )
    assert (policy.namespace, policy.batch_window) == ("gpu-system", 0.5)
    assert policy.deadlines[SmartPodState.INITIALIZED] == 420.0


def test_defaults_are_the_cores() -> None:
    assert KarpenterPolicy.of(read_settings("", "file").karpenter) == KarpenterPolicy()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("{x: {gpuModel: T4}}", "x.nodePool: is missing"),
        ("{x: {nodePool: a}}", "x.gpuModel: is missing; nodes without GPUs say gpusPerNode: 0"),
        ("{x: {nodePool: a, gpuModl: T4}}", "x.gpuModl: there is no such field"),
        ("{x: {nodePool: a, gpuModl: T4}}", "did you mean gpuModel?"),
        ("{x: {nodePool: a, gpuModel: T4, gpuMemroy: 1Gi}}", "x.gpuMemroy: there is no such field"),
        ("{x: {nodePool: a, gpuModel: T4, gpuMemroy: 1Gi}}", "did you mean gpuMemory?"),
        ("{x: {nodePool: a, gpuModel: T4, gpuMemory: much}}", "x.gpuMemory: is 'much'"),
        ("{x: {nodePool: a, gpuModel: T4, gpusPerNode: -1}}", "x.gpusPerNode: is -1"),
        ("{x: {nodePool: a, gpuModel: T4, gpusPerNode: 0}}", "x.gpuModel: is set, and gpusPerNode is 0"),
        ("{x: {nodePool: a, gpuMemory: 1Gi, gpusPerNode: 0}}", "x.gpuMemory: is set, and gpusPerNode is 0"),
        ("{x: {nodePool: a, gpuModel: T4, instanceTypes: p4d}}", "x.instanceTypes: is 'p4d'"),
        ("{x: {nodePool: gpu pool, gpuModel: T4}}", "x.nodePool: is 'gpu pool'; allowed: a name of lower case"),
        (f"{{x: {{nodePool: {'n' * 254}, gpuModel: T4}}}}", "x.nodePool: is 'nnn"),
        (f"{{x: {{nodePool: a, gpuModel: {'m' * 200}}}}}", "x.gpuModel: is 'mmm"),
        (f"{{x: {{nodePool: a, gpuModel: {'m' * 200}}}}}", "at most 128 characters"),
        ("{x: {nodePol: a, gpuModel: T4}}", "x.nodePol: there is no such field"),
        ("{x: {nodePol: a, gpuModel: T4}}", "did you mean nodePool?"),
        ('{x: {nodePool: a, gpuModel: "  "}}', "x.gpuModel: is '  '"),
        ('{x: {nodePool: a, gpuModel: T4, labels: {"a b": c}}}', "x.labels.a b: is 'a b'; allowed: a label such as"),
        ('{x: {nodePool: a, gpuModel: T4, labels: {a: "b c"}}}', "x.labels.a: is 'b c'; allowed: a label's value"),
        (f"{{x: {{nodePool: a, gpuModel: T4, labels: {{a: {'v' * 64}}}}}}}", "x.labels.a: is 'vvv"),
        ('{x: {nodePool: a, gpuModel: T4, instanceTypes: [""]}}', "x.instanceTypes: has ''; allowed: a list of texts"),
        ("{x: 3}", "x: is 3; allowed: a mapping"),
        ("[a]", "is a list"),
        ("{}", "is empty, and karpenter.enabled is true"),
    ],
)
def test_what_is_wrong_is_named(body: str, said: str) -> None:
    with pytest.raises(SettingsError) as error:
        read_settings(f"karpenter:\n  enabled: true\n  nodePools: {body}\n", "file")
    assert "file:3: karpenter.nodePools" in str(error.value)
    assert said in str(error.value)


def test_a_node_pool_without_gpus_says_so_and_is_written_as_it_was_read() -> None:
    said = {"vms": {"nodePool": "vms", "gpusPerNode": 0, "labels": {}, "instanceTypes": []}}
    found = NodePools().read(said)
    assert found == {"vms": NodePoolMapping(name="vms", node_pool="vms", gpus_per_node=0)}
    assert NodePools().write(found) == said
