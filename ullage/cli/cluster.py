"""The options every verb that talks to a cluster has, and the connection they stand for."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from ullage.kube.client.api import KubeApi

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class ClusterChoice:
    """Choice of a cluster: a kubeconfig and a context, or kubectl's defaults."""

    kubeconfig: Path | None
    context: str | None

    @classmethod
    def of(cls, kubeconfig: str | None, context: str | None) -> "ClusterChoice":
        """Make a choice from the options given."""
        return cls(Path(kubeconfig) if kubeconfig else None, context)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[KubeApi]:
        """A connection that is closed again."""
        from ullage.kube.auth.connect import find_access, open_api
        from ullage.kube.client.calling import RetryPolicy

        # A user waits: a server that hangs is asked twice, not for minutes as a loop would.
        api = open_api(find_access(self.kubeconfig, self.context), patience=RetryPolicy(attempts=2, longest_wait=5.0))
        try:
            yield api
        finally:
            await api.close()


def cluster_options(command: F) -> F:
    """Adds `--kubeconfig` and `--context`."""
    kubeconfig = click.option(
        "--kubeconfig",
        metavar="FILE",
        help="Kubeconfig file. Default: $KUBECONFIG, ~/.kube/config, then the pod's service account.",
    )
    context = click.option("--context", help="Context of the kubeconfig. Default: its current one.")
    return kubeconfig(context(command))
