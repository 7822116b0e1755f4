"""Declarations of settings are part of the core: they read no file, no environment and no clock."""

import subprocess
import sys

import pytest

PURE = ("values", "compound_values", "declaration", "settings", "karpenter", "laws", "reload")
OUTSIDE = ("yaml", "click", "asyncio", "random", "socket", "structlog")


@pytest.mark.parametrize("module", PURE)
def test_a_declaration_loads_nothing_that_reads_the_outside(module: str) -> None:
    code = f"import sys, ullage.config.{module}; print([name for name in {OUTSIDE!r} if name in sys.modules])"
    done = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
