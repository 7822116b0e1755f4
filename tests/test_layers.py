"""The layering is a test, not a paragraph: each breach here must break the build. So must call-backs set afterwards."""

import ast
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LINT = Path(sys.executable).with_name("lint-imports")


@pytest.fixture
def copy_of_the_package(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / "ullage", tmp_path / "ullage", ignore=shutil.ignore_patterns("__pycache__", "modules"))
    return tmp_path


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (LINT, "--no-cache"), cwd=folder, capture_output=True, text=True, check=False, env={"PYTHONPATH": str(folder)}
    )


def test_the_package_keeps_its_contracts(copy_of_the_package: Path) -> None:
    done = lint(copy_of_the_package)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        pytest.param("decide", "import time", "The core knows no clock", id="a-decision-reads-the-clock"),
        pytest.param("decide", "def f():\n    import random", "The core knows no clock", id="chance-inside-a-function"),
        pytest.param("state", "import logging", "The core knows no clock", id="state-logs"),
        pytest.param("model", "import asyncio", "The core knows no clock", id="a-noun-awaits"),
        pytest.param("state", "import aiohttp", "The core knows no clock", id="state-calls-out"),
        pytest.param("model", "import ullage.clock", "The core knows no clock", id="a-noun-asks-our-clock"),
        pytest.param("decide", "import ullage.kube.client.api", "Imports point from", id="a-decision-calls-kubernetes"),
        pytest.param("model", "import ullage.state", "Imports point from", id="a-noun-knows-the-state"),
        pytest.param("kube", "import ullage.watch", "Imports point from", id="the-client-knows-its-loops"),
        pytest.param("control", "import ullage.decide.draining.planner", "Loops call cores", id="a-loop-searches"),
        pytest.param("act", "import ullage.decide", "Actuators and readers decide nothing", id="an-actuator-decides"),
    ],
)
def test_a_breach_breaks_the_build(copy_of_the_package: Path, module: str, line: str, contract: str) -> None:
    (copy_of_the_package / "ullage" / module / "breach.py").write_text(f"{line}\n")
    done = lint(copy_of_the_package)
    assert done.returncode == 1, done.stdout
    broken = [row for row in done.stdout.splitlines() if "BROKEN" in row]
    assert any(contract in row for row in broken), done.stdout


WIRED_AT_ONCE = ("model", "state", "decide", "act", "watch", "control", "webhook", "agent", "vm_agent", "certs")


def set_afterwards(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Call-backs that are set on an object that exists already: `loop.on_plan = ...`."""
    assignments = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    for one in (one for node in assignments for target in node.targets for one in ast.walk(target)):
        if isinstance(one, ast.Attribute) and one.attr.startswith("on_") and ast.unparse(one.value) != "self":
            yield one.lineno, ast.unparse(one)


@pytest.mark.parametrize("layer", WIRED_AT_ONCE)
def test_no_call_back_is_set_afterwards(layer: str) -> None:
    files = sorted((ROOT / "ullage" / layer).rglob("*.py"))
    assert [(str(file), *found) for file in files for found in set_afterwards(ast.parse(file.read_text()))] == []


def test_a_call_back_that_is_set_afterwards_is_found() -> None:
    module = ast.parse("self.on_node = {}\nloop.on_plan, other = told, 1\nself.loop.on_gone = told")
    assert list(set_afterwards(module)) == [(2, "loop.on_plan"), (3, "self.loop.on_gone")]
