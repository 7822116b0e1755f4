"""Connect to a cluster: find its configuration, and return a `KubeApi` for it."""

import os
import random
from collections.abc import Callable
from pathlib import Path

from ullage.clock import Clock, WallClock
from ullage.errors import UserError
from ullage.kube.auth import access, kubeconfig
from ullage.kube.auth.access import ClusterAccess
from ullage.kube.client.calling import RetryPolicy
from ullage.kube.client.rate import RateLimiter
from ullage.kube.client.rest import RestApi
from ullage.kube.client.transport import Transport
from ullage.kube.http.http import HttpTransport, TransportOptions


def find_access(
    path: str | Path | None = None, context: str | None = None, *, clock: Clock | None = None
) -> ClusterAccess:
    """Find the cluster: by the given file, else KUBECONFIG, else ~/.kube/config, else the pod's service account.

    Raises UserError that says which were tried and what to do.
    """
    clock = clock or WallClock()
    files = _files(path)
    if files:
        return access.from_kubeconfig(kubeconfig.choose(kubeconfig.load(files), context), clock)
    if context:
        raise UserError(f"context {context!r} needs a kubeconfig, and there is none; {_tried()}")
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return access.in_cluster()
    raise UserError(f"no cluster to talk to: {_tried()}")


def connect(
    path: str | Path | None = None,
    context: str | None = None,
    *,
    rate: RateLimiter | None = None,
    seed: int | None = None,
) -> RestApi:
    """Return an API for the cluster of `find_access`. No connection is made before the first call.

    `rate` None means no limit of our own; `seed` is that of the jitter in retries.
    """
    return open_api(find_access(path, context), rate=rate, seed=seed)


def open_api(
    entry: ClusterAccess,
    *,
    rate: RateLimiter | None = None,
    seed: int | None = None,
    patience: RetryPolicy = RetryPolicy(),  # noqa: B008 - frozen
    options: TransportOptions | None = None,
    around: Callable[[Transport], Transport] = lambda transport: transport,
) -> RestApi:
    """Return an API for this access. `around` wraps its transport."""
    transport = HttpTransport(entry.endpoint, entry.credentials, options or TransportOptions())
    return RestApi(around(transport), rng=random.Random(seed), rate=rate, patience=patience)


def _files(path: str | Path | None) -> list[Path]:
    """Kubeconfig files to read, in order; may be empty. Only a file named explicitly must exist."""
    if path is not None:
        return [Path(path).expanduser()]
    listed = [Path(one) for one in os.environ.get("KUBECONFIG", "").split(os.pathsep) if one]
    if listed:
        there = [one for one in listed if one.exists()]
        if not there:
            names = ", ".join(str(one) for one in listed)
            raise UserError(f"KUBECONFIG names {names}, which does not exist; correct or unset it")
        return there
    home = _home_file()
    return [home] if home.exists() else []


def _home_file() -> Path:
    return Path("~/.kube/config").expanduser()


def _tried() -> str:
    return (
        f"no --kubeconfig, KUBECONFIG is not set, {_home_file()} does not exist, and this is not a pod "
        "(KUBERNETES_SERVICE_HOST is not set); give a kubeconfig with --kubeconfig"
    )
