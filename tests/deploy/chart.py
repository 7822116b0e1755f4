"""Helm as a program, and its output as objects."""

import subprocess
from pathlib import Path
from typing import Any

import yaml

from ullage.kube.client.resource import JsonObject
from ullage.testing.controlplane.fixtures import program
from ullage.testing.controlplane.versions import GoProgram

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "ullage"
NAMESPACE = "ullage-system"


class HelmFailed(Exception):
    """With what it complained of."""


def helm(*arguments: str, values: dict[str, Any] | None = None) -> str:
    """Standard output; raises HelmFailed."""
    given = ("--values", "-") if values is not None else ()
    text = yaml.safe_dump(values) if values is not None else ""
    command = [str(program(GoProgram.HELM)), *arguments, *given]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        raise HelmFailed(done.stderr)
    return done.stdout


def template(values: dict[str, Any] | None = None, namespace: str = NAMESPACE) -> list[JsonObject]:
    """Objects the chart makes of these values."""
    text = helm("template", "ullage", str(CHART), "--namespace", namespace, values=values or {})
    return [one for one in yaml.safe_load_all(text) if one]
