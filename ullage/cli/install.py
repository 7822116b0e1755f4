"""`ullage install`: the manifests of an installation, printed or applied."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ullage.cli.cluster import ClusterChoice, cluster_options
from ullage.errors import UserError
from ullage.model.lease import LEASE_NAMESPACE

if TYPE_CHECKING:
    from ullage.deploy.options import InstallOptions

COMPONENT_NAMES = ("scheduler", "controller", "webhook", "agent", "vm-agent", "dashboard")
FEATURE_NAMES = ("karpenter", "cluster-api", "kwok", "vms")

EXAMPLES = """\b
Examples:
  ullage install > ullage.yaml
  ullage install --apply
  ullage install --apply --image registry.example/ullage:0.1.0 --feature karpenter
  ullage install --only scheduler --only webhook --apply
  ullage install --definitions-only --apply
"""


@click.command("install", epilog=EXAMPLES)
@click.option("--apply", "applies", is_flag=True, help="Apply them to the cluster, and wait until all is ready.")
@click.option("--namespace", default=LEASE_NAMESPACE, show_default=True, help="Where Ullage runs and keeps its Leases.")
@click.option("--image", default="ullage:0.1.0", show_default=True, help="Image of all components.")
@click.option(
    "--only",
    "components",
    multiple=True,
    type=click.Choice(COMPONENT_NAMES),
    help="Install these components. May be repeated. Default: all but vm-agent and dashboard.",
)
@click.option(
    "--feature",
    "features",
    multiple=True,
    type=click.Choice(FEATURE_NAMES),
    help="Grant what this needs: Karpenter, Cluster API, simulated nodes, or VMs. May be repeated.",
)
@click.option(
    "--definitions-only", is_flag=True, help="Our kinds and the namespace, for processes outside the cluster."
)
@click.option("--pod-group", is_flag=True, help="The definition of PodGroup too. --apply sees for itself.")
@click.option("--settings", "settings_file", metavar="FILE", help="Settings file of the components.")
@click.option("--network-policies", is_flag=True, help="NetworkPolicies: only the declared ports can be reached.")
@click.option(
    "--monitoring", is_flag=True, help="ServiceMonitors, alert rules, Grafana dashboard (Prometheus operator)."
)
@click.option(
    "--history-claim", metavar="NAME", default="", help="PersistentVolumeClaim that keeps the dashboard's history."
)
@click.option("--simulate", metavar="BOARD", default="", help="Agents report GPUs that are not there: 8xH100-SXM.")
@click.option(
    "--timeout", type=click.FloatRange(min=1), default=300.0, show_default=True, help="Seconds to wait with --apply."
)
@cluster_options
def command(applies: bool, kubeconfig: str | None, context: str | None, timeout: float, **options: Any) -> None:
    """Print what a cluster needs for Ullage, as YAML; with --apply, apply it and wait until it is ready.

    The same objects as the Helm chart makes. Safe to repeat: an upgrade is the same command with another image.
    `ullage uninstall` takes everything away again.
    """
    chosen = read_options(options)
    if applies:
        asyncio.run(_apply(ClusterChoice.of(kubeconfig, context), chosen, timeout))
        return
    import yaml

    from ullage.deploy.manifests import manifests

    click.echo(yaml.safe_dump_all(manifests(chosen), sort_keys=False, width=120, allow_unicode=True).rstrip())


def read_options(options: dict[str, Any]) -> "InstallOptions":
    """Read the options of the command. Raises UserError."""
    from dataclasses import replace

    from ullage.deploy.component import Component, Feature
    from ullage.deploy.components import COMPONENTS
    from ullage.deploy.options import InstallOptions

    chosen = InstallOptions(
        namespace=options["namespace"],
        image=options["image"],
        features=[Feature(one) for one in options["features"]],
        pod_group=options["pod_group"],
        settings=_settings(options["settings_file"]),
        network_policies=options["network_policies"],
        monitoring=options["monitoring"],
        history_claim=options["history_claim"],
        simulate=options["simulate"],
    )
    if options["definitions_only"]:
        if options["components"]:
            raise UserError("--definitions-only: installs no component; leave --only out")
        return replace(chosen, components=())
    if options["components"]:
        chosen = replace(chosen, components=[Component(one) for one in options["components"]])
    for one in chosen.components:
        needed = COMPONENTS[one].needs
        if needed is not None and needed not in chosen.features:
            raise UserError(f"--only {one}: needs --feature {needed}, which lets the scheduler answer it")
    return chosen


def _settings(file: str | None) -> str:
    """Text of a settings file that is right. Raises UserError."""
    if file is None:
        return ""
    from ullage.config.loading import load_settings

    load_settings(file)
    return Path(file).read_text()


async def _apply(choice: ClusterChoice, options: "InstallOptions", timeout: float) -> None:
    from dataclasses import replace

    from ullage.deploy.applying import apply, needs_pod_group, wait_ready

    async with choice.connected() as api:
        if not options.pod_group and await needs_pod_group(api):
            options = replace(options, pod_group=True)
        await apply(api, options, click.echo)
        await wait_ready(api, options, click.echo, seconds=timeout)
    click.echo(f"installed; Leases of GPUs are kept in namespace {options.namespace}. Next: ullage check")
