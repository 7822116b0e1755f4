"""`ullage agent`: the GPUs of this node, reported to the cluster until it is stopped."""

import asyncio
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ullage.cli.cluster import ClusterChoice, cluster_options
from ullage.cli.process import LISTEN_HELP, identity, listen_address, reporting_rights, until_stopped
from ullage.model.lease import LEASE_NAMESPACE

if TYPE_CHECKING:
    from ullage.agent.gpu_reader import GpuReader
    from ullage.agent.wiring import AgentHost, AgentSettings
    from ullage.observe.probes import ListenAddress

KUBELET_SOCKET = "/var/lib/kubelet/pod-resources/kubelet.sock"

EXAMPLES = """\b
Examples:
  ullage agent --node-name gpu-node-1
  ullage agent --simulate 8xH100-SXM --node-name kwok-node-1
  ullage agent --simulate 8xH100-SXM,mig=7:1g.10gb*7,ill=3 --node-name kwok-node-2
  ullage agent --mode leased --listen 127.0.0.1:9442
"""


@click.command("agent", epilog=EXAMPLES)
@click.option(
    "--node-name", metavar="NAME", help="The Node this machine is. Default: $NODE_NAME, then the host's name."
)
@click.option(
    "--mode",
    type=click.Choice(("auto", "leased", "counted")),
    default="auto",
    show_default=True,
    help="Who chooses GPUs here: ullage (leased), a device plugin (counted), or whoever kubelet says (auto; "
    "simulated GPUs are leased).",
)
@click.option(
    "--simulate",
    metavar="GPUS",
    help="Report GPUs that are not there: 8xH100-SXM, 4xA100-PCIe, L4. With MIG instances and ill GPUs: "
    "8xH100,mig=7:1g.10gb*7,ill=3.",
)
@click.option("--namespace", default=LEASE_NAMESPACE, show_default=True, help="Where the Leases of GPUs are kept.")
@click.option(
    "--kubelet-socket", default=KUBELET_SOCKET, show_default=True, metavar="FILE", help="kubelet's PodResources."
)
@click.option("--proc", default="/proc", show_default=True, metavar="DIR", help="Where the host's processes are found.")
@click.option("--listen", metavar="HOST:PORT", help=LISTEN_HELP)
@cluster_options
def command(kubeconfig: str | None, context: str | None, listen: str | None, **options: Any) -> None:
    """Read the GPUs of this node through NVML and keep its GpuNodeStatus true.

    Needs the NVIDIA driver (or --simulate), and what `ullage install` brings. Stops cleanly on SIGTERM and Ctrl-C.
    """
    from ullage.agent.wiring import AgentSettings
    from ullage.decide.inventory.node_kind import NodeKindMode

    simulate: str | None = options["simulate"]
    node = options["node_name"] or os.environ.get("NODE_NAME") or socket.gethostname()
    wanted = NodeKindMode.LEASED if simulate and options["mode"] == "auto" else NodeKindMode(options["mode"])
    settings = AgentSettings(node, wanted, options["namespace"])
    # Where we choose the GPUs, and where there are none, kubelet has nothing to say of them.
    asks_kubelet = wanted is not NodeKindMode.LEASED and not simulate
    places = _Places(simulate, Path(options["kubelet_socket"]) if asks_kubelet else None, Path(options["proc"]))
    choice = ClusterChoice.of(kubeconfig, context)
    asyncio.run(until_stopped(_serve(choice, settings, places, listen_address(listen))))


class _Places:
    """Sources the agent reads the machine from: NVML or simulated GPUs, the kubelet's socket, and /proc."""

    def __init__(self, gpu_set: str | None, kubelet: Path | None, proc: Path) -> None:
        self._gpu_set = gpu_set
        self._kubelet = kubelet
        self._proc = proc

    async def open(self, node: str) -> "AgentHost":
        """Raises UserError where there are no GPUs to be read."""
        from ullage.agent.podresources import PodResources
        from ullage.agent.processes import ProcFs
        from ullage.agent.wiring import AgentHost

        resources = None
        if self._kubelet is not None:
            PodResources.check()
            resources = PodResources(self._kubelet)
        return AgentHost(await self._reader(node), ProcFs(self._proc), resources)

    async def _reader(self, node: str) -> "GpuReader":
        if self._gpu_set:
            from ullage.agent.simulated import SimulatedReader, read_gpu_set

            return SimulatedReader(read_gpu_set(self._gpu_set), node)
        from ullage.agent.nvml.reader import NvmlReader

        return await NvmlReader.open()


async def _serve(
    choice: ClusterChoice, settings: "AgentSettings", places: _Places, address: "ListenAddress | None"
) -> None:
    import secrets

    from ullage.agent.wiring import NodeAgent
    from ullage.clock import WallClock
    from ullage.errors import UserError
    from ullage.kube.auth.connect import find_access, open_api
    from ullage.kube.client.resources import GPU_NODE_STATUSES
    from ullage.observe.probes import serving

    host = await places.open(settings.node)
    api = open_api(find_access(choice.kubeconfig, choice.context), around=reporting_rights)
    try:
        if GPU_NODE_STATUSES not in await api.discover():
            raise UserError("the cluster does not serve GpuNodeStatus; run `ullage install --apply` first")
        agent = NodeAgent(api, host, settings, WallClock(), instance=identity(), seed=secrets.randbits(32))
        if address is None:
            await agent.run()
        else:
            async with serving(address, agent.metrics.registry, agent.checks):
                await agent.run()
    finally:
        await host.reader.close()
        await api.close()
