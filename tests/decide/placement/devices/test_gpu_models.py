"""GPU models by name."""

import pytest

from ullage.decide.placement.devices.gpu_models import is_model, tflops_of


@pytest.mark.parametrize(
    ("product", "asked", "same"),
    [
        pytest.param("NVIDIA H100 80GB HBM3", "H100", True, id="a-word-of-it"),
        pytest.param("NVIDIA-H100-80GB-HBM3", "nvidia h100 80gb hbm3", True, id="any-spelling"),
        pytest.param("NVIDIA A100-SXM4-80GB", "A100 80GB", True, id="words-in-between"),
        pytest.param("NVIDIA A100-SXM4-40GB", "A100 80GB", False, id="another-memory"),
        pytest.param("NVIDIA A10", "A100", False, id="a-prefix-is-not-it"),
        pytest.param("NVIDIA L40S", "L40", False, id="nor-is-the-start-of-a-word"),
        pytest.param("anything", "", True, id="nothing-asked"),
        pytest.param("", "T4", False, id="no-name"),
        pytest.param("NVIDIA H100 80GB HBM3", "H100|H200", True, id="the-first-of-two"),
        pytest.param("NVIDIA H200", "H100 | H200", True, id="the-second-of-two"),
        pytest.param("NVIDIA L4", "H100|H200", False, id="neither-of-two"),
    ],
)
def test_is_model(product: str, asked: str, same: bool) -> None:
    assert is_model(product, asked) is same


@pytest.mark.parametrize(
    ("product", "tflops"),
    [
        pytest.param("NVIDIA H100 80GB HBM3", 989, id="sxm"),
        pytest.param("NVIDIA H100 PCIe", 756, id="pcie-is-told-apart"),
        pytest.param("Tesla V100-SXM2-16GB", 125, id="v100"),
        pytest.param("NVIDIA A10G", 70, id="a10g-is-not-a10"),
        pytest.param("P100", 21, id="no-tensor-cores"),
        pytest.param("Frobnicator 9000", None, id="unknown"),
    ],
)
def test_tflops(product: str, tflops: int | None) -> None:
    assert tflops_of(product) == tflops
