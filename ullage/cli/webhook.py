"""`ullage webhook`: answers the API server's admission reviews over HTTPS, until it is stopped."""

import asyncio
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ullage.cli.cluster import ClusterChoice, cluster_options
from ullage.cli.process import LISTEN_HELP, listen_address, reporting_rights, until_stopped
from ullage.errors import UserError
from ullage.model.lease import LEASE_NAMESPACE
from ullage.model.scoring import DEFAULT_SCHEDULER

if TYPE_CHECKING:
    from ullage.certs.files import CertificateFiles
    from ullage.kube.client.api import KubeApi
    from ullage.observe.probes import ListenAddress
    from ullage.webhook.callers import Callers
    from ullage.webhook.wiring import WebhookSettings

EXAMPLES = """\b
Examples:
  ullage webhook --listen 0.0.0.0:9440
  ullage webhook --tls-cert /tls/tls.crt --tls-key /tls/tls.key --ca-file /tls/ca.crt
  ullage webhook --visible-devices index
  ullage webhook --install
  ullage webhook --remove
"""


@click.command("webhook", epilog=EXAMPLES)
@click.option(
    "--address", default="0.0.0.0:9443", show_default=True, metavar="HOST:PORT", help="Answer reviews here, over HTTPS."
)
@click.option("--listen", metavar="HOST:PORT", help=LISTEN_HELP)
@click.option(
    "--namespace", default=LEASE_NAMESPACE, show_default=True, help="Where the Service and the Secret of keys are."
)
@click.option("--service", default="ullage-webhook", show_default=True, help="Service by which API servers call.")
@click.option("--url", default="", help="URL by which API servers call, in place of a Service.")
@click.option(
    "--secret", default="ullage-webhook-tls", show_default=True, help="Secret the replicas share their keys in."
)
@click.option("--tls-cert", metavar="FILE", help="Certificate to serve, in place of our own; read again on change.")
@click.option("--tls-key", metavar="FILE", help="Its key.")
@click.option(
    "--ca-file", metavar="FILE", help="What API servers are told to trust. Default: left to whoever keeps caBundle."
)
@click.option(
    "--client-ca-file",
    metavar="FILE",
    help="Answer only who shows a certificate of this authority: an API server that was given one.",
)
@click.option(
    "--client-name",
    "client_names",
    multiple=True,
    help="Common name of that certificate; may be repeated. Default: any.",
)
@click.option(
    "--register/--no-register",
    default=True,
    show_default=True,
    help="Keep what the webhook configurations trust current.",
)
@click.option(
    "--scheduler-name",
    "schedulers",
    multiple=True,
    default=(DEFAULT_SCHEDULER,),
    show_default=True,
    help="Scheduler name of pods with claims; may be repeated, and pods that name none get the first.",
)
@click.option(
    "--identity",
    "identities",
    multiple=True,
    default=(f"system:serviceaccount:{LEASE_NAMESPACE}:ullage-scheduler",),
    show_default=True,
    help="User the scheduler writes as, the only one who may say who has which GPU; may be repeated.",
)
@click.option(
    "--controller-identity",
    "controllers",
    multiple=True,
    default=("system:serviceaccount:ullage-system:ullage-controller",),
    show_default=True,
    help="User the controller writes as, the only one whose smart pods may be placed on leased nodes; may be repeated.",
)
@click.option(
    "--visible-devices",
    type=click.Choice(("uuid", "index")),
    default="uuid",
    show_default=True,
    help="How containers name their GPUs.",
)
@click.option(
    "--allow-unconfined",
    is_flag=True,
    help="Let pods with claims be privileged, mount the host's devices, or ask for devices by CDI annotations.",
)
@click.option(
    "--drain", type=click.FloatRange(min=0), default=5.0, show_default=True, help="Seconds to serve on when stopped."
)
@click.option("--install", is_flag=True, help="Write the webhook configurations, and do nothing else.")
@click.option("--remove", is_flag=True, help="Delete the webhook configurations, and do nothing else.")
@cluster_options
def command(kubeconfig: str | None, context: str | None, install: bool, remove: bool, **options: Any) -> None:
    """Prepare pods with GPU claims so that they see exactly the GPUs leased to them, and guard what the scheduler says.

    Needs what `ullage install` brings. Makes and renews its own certificates; several replicas may run. API servers
    call it once --install, with an admin's rights, has told them to; from then on pods with our annotations cannot be
    created while no replica runs: use --remove before the last one goes for good.
    """
    choice = ClusterChoice.of(kubeconfig, context)
    settings = read_settings(options)
    if install:
        done = asyncio.run(_install(choice, settings))
        click.echo(f"installed {', '.join(done)}")
        return
    if remove:
        gone = asyncio.run(_remove(choice, settings))
        click.echo(f"deleted {', '.join(gone)}" if gone else "there was nothing to delete")
        return
    asyncio.run(until_stopped(_serve(choice, settings)))


def read_settings(options: dict[str, Any]) -> "WebhookSettings":
    """Read the webhook's settings from the options. Raises UserError."""
    from ullage.certs.rotator import SecretName
    from ullage.decide.admission.policy import AdmissionPolicy, DeviceNaming
    from ullage.kube.admission.webhook_configs import WebhookEndpoint
    from ullage.webhook.wiring import WebhookSettings, names_for

    address: ListenAddress | None = listen_address(options["address"], "--address")
    if address is None:
        raise UserError("--address: give HOST:PORT")
    reach = WebhookEndpoint(options["namespace"], options["service"], url=options["url"])
    names_for(reach)  # complain now about a URL nobody can call
    return WebhookSettings(
        policy=AdmissionPolicy(
            options["schedulers"],
            options["identities"],
            DeviceNaming(options["visible_devices"]),
            unconfined=options["allow_unconfined"],
            controllers=options["controllers"],
        ),
        listen=address,
        probes=listen_address(options["listen"]),
        reach=reach,
        register=options["register"],
        secret=SecretName(options["namespace"], options["secret"]),
        files=_files(options["tls_cert"], options["tls_key"], options["ca_file"]),
        callers=_callers(options["client_ca_file"], options["client_names"]),
        drain=options["drain"],
    )


def _callers(authority: str | None, names: tuple[str, ...]) -> "Callers":
    from ullage.webhook.callers import Callers

    if names and authority is None:
        raise UserError("--client-name: give --client-ca-file, too: a name says nothing without an authority")
    return Callers(Path(authority) if authority else None, names)


def _files(certificate: str | None, key: str | None, authority: str | None) -> "CertificateFiles | None":
    from ullage.certs.files import CertificateFiles

    if certificate is None and key is None and authority is None:
        return None
    if certificate is None or key is None:
        raise UserError("--tls-cert, --tls-key and --ca-file: give a certificate and its key, or none of the three")
    return CertificateFiles(Path(certificate), Path(key), Path(authority) if authority else None)


async def _install(choice: ClusterChoice, settings: "WebhookSettings") -> list[str]:
    from ullage.webhook.registration import WebhookRegistrar

    async with choice.connected() as api:
        return await WebhookRegistrar(api, settings.reach, settings.policy.identities).install()


async def _remove(choice: ClusterChoice, settings: "WebhookSettings") -> list[str]:
    from ullage.webhook.registration import WebhookRegistrar

    async with choice.connected() as api:
        return await WebhookRegistrar(api, settings.reach, settings.policy.identities).remove()


async def _serve(choice: ClusterChoice, settings: "WebhookSettings") -> None:
    from ullage.clock import WallClock
    from ullage.kube.auth.connect import find_access, open_api
    from ullage.webhook.wiring import Webhook

    api = open_api(find_access(choice.kubeconfig, choice.context), around=reporting_rights)
    try:
        await _check(api)
        await Webhook(api, settings, WallClock(), seed=secrets.randbits(32)).run()
    finally:
        await api.close()


async def _check(api: "KubeApi") -> None:
    """Check before the start that this cluster can be served at all. Raises UserError."""
    from ullage.kube.client.resources import GPU_CLAIMS

    if GPU_CLAIMS not in await api.discover():
        raise UserError(f"the cluster does not serve {GPU_CLAIMS.kind}; run `ullage install --apply` first")
