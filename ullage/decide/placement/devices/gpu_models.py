"""GPU products by name: match with a requested model, and computing power.

Names come from drivers and clouds in many spellings ("NVIDIA H100 80GB HBM3", "NVIDIA-H100-80GB-HBM3", "H100"), so they
are compared word by word: `H100` is every product that has this word.
"""

from collections.abc import Mapping
from functools import lru_cache

Words = tuple[str, ...]

ALTERNATIVES = "|"
"""Separates the models of a request that takes any of several."""

DENSE_TFLOPS: Mapping[Words, int] = {
    ("P100",): 21,
    ("V100",): 125,
    ("V100", "PCIE"): 112,
    ("V100M16",): 125,
    ("V100M32",): 125,
    ("T4",): 65,
    ("A10",): 125,
    ("A10G",): 70,
    ("A30",): 165,
    ("A40",): 150,
    ("A100",): 312,
    ("A800",): 312,
    ("RTX", "A6000"): 155,
    ("RTX", "6000", "ADA"): 364,
    ("L4",): 121,
    ("L40",): 181,
    ("L40S",): 362,
    ("H20",): 148,
    ("H100",): 989,
    ("H100", "PCIE"): 756,
    ("H100", "NVL"): 835,
    ("H800",): 989,
    ("H200",): 989,
    ("GH200",): 989,
    ("B200",): 2250,
    ("B300",): 2250,
    ("GB200",): 2500,
}
"""TFLOPs of FP16 (BF16 where there is) on tensor cores without sparsity, from the makers' data sheets; the P100, which
has none, in plain FP16. The entry with most words wins, so a PCIe card differs from the SXM card of its model."""


@lru_cache(maxsize=4096)
def words(name: str) -> Words:
    """Words of a product name: runs of letters and digits, in upper case."""
    return tuple("".join(letter if letter.isalnum() else " " for letter in name.upper()).split())


@lru_cache(maxsize=16384)
def is_model(product: str, asked: str) -> bool:
    """True if every requested word is in the product's name, in that order. An empty request matches every product.

    Bars separate alternatives: `H100|H200` is either. This is the one rule by which models match: in claims, quotas,
    pools, NodePools of Karpenter, price tables and simulated workloads.
    """
    return any(_has_words(product, one) for one in asked.split(ALTERNATIVES))


def _has_words(product: str, asked: str) -> bool:
    remaining = iter(words(product))
    return all(word in remaining for word in words(asked))


@lru_cache(maxsize=1024)
def tflops_of(product: str) -> int | None:
    """Dense TFLOPs of one GPU; None if the table does not have it."""
    known = [entry for entry in DENSE_TFLOPS if is_model(product, " ".join(entry))]
    return DENSE_TFLOPS[max(known, key=len)] if known else None
