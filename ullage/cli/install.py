"""`ullage install`: what a cluster needs before ullage can work in it."""

import asyncio

import click

from ullage.cli.cluster import ClusterChoice, cluster_options
from ullage.kube.client.api import KubeApi

EXAMPLES = """\b
Examples:
  ullage install
  ullage install --context staging --namespace ullage-system
"""


@click.command("install", epilog=EXAMPLES)
@click.option("--namespace", default="ullage-system", show_default=True, help="Where the Leases of GPUs are kept.")
@cluster_options
def command(namespace: str, kubeconfig: str | None, context: str | None) -> None:
    """Apply the definitions of GpuClaim, GpuNodeStatus, GpuQuota, NodeProvisioner; create the namespace of the Leases.

    PodGroup, by which gangs say how many they are, is brought too where the cluster has none. Safe to repeat; what is
    there stays.
    """
    done = asyncio.run(_install(ClusterChoice.of(kubeconfig, context), namespace))
    click.echo(f"installed {', '.join(done)}; Leases are kept in namespace {namespace}")


async def _install(choice: ClusterChoice, namespace: str) -> list[str]:
    from ullage.kube.client.resources import KUBE_POD_GROUPS, POD_GROUPS
    from ullage.kube.crds.catalog import OURS, POD_GROUP
    from ullage.kube.crds.install import install
    from ullage.watch.sources import is_served

    async with choice.connected() as api:
        gangs_known = await is_served(api, POD_GROUPS) or KUBE_POD_GROUPS in await api.discover()
        wanted = OURS if gangs_known else (*OURS, POD_GROUP)
        await install(api, wanted)
        await ensure_namespace(api, namespace)
    return [definition.resource.id for definition in wanted]


async def ensure_namespace(api: KubeApi, name: str) -> None:
    """Create the namespace if it does not exist."""
    from ullage.errors import AlreadyExists
    from ullage.kube.client.resources import NAMESPACES

    try:
        await api.create(NAMESPACES, {"metadata": {"name": name}})
    except AlreadyExists:
        return
