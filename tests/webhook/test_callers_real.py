"""The real API server shows its certificate to a webhook that asks for one; nobody else is answered."""

import asyncio
import json
import ssl
import subprocess
from base64 import b64encode
from pathlib import Path

import aiohttp
import pytest

from tests.contract.expect import eventually
from tests.webhook.programs import DEPLOY, PROGRAM, Site, WebhookProgram
from ullage.errors import ApiError
from ullage.kube.auth.connect import connect
from ullage.kube.client.resources import PODS
from ullage.model.allocation import CLAIM
from ullage.testing.admission import a_review, encoded
from ullage.testing.builders import a_pod
from ullage.testing.controlplane import ControlPlane, ControlPlaneSpec, GoProgram
from ullage.testing.controlplane.binaries import find
from ullage.testing.controlplane.certificates import CertificateAuthority
from ullage.testing.controlplane.fixtures import prepare

pytestmark = pytest.mark.real


def admission_configuration(folder: Path, authority: CertificateAuthority) -> Path:
    """What an API server is started with so that it shows a certificate to webhooks."""
    pair = authority.client("kube-apiserver-admission")
    user = {
        "client-certificate-data": b64encode(pair.certificate).decode(),
        "client-key-data": b64encode(pair.key).decode(),
    }
    access = {"apiVersion": "v1", "kind": "Config", "users": [{"name": "*", "user": user}]}
    kubeconfig = folder / "webhooks.kubeconfig"
    kubeconfig.write_text(json.dumps(access))
    said = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "WebhookAdmissionConfiguration",
        "kubeConfigFile": str(kubeconfig),
    }
    plugins = [
        {"name": name, "configuration": said} for name in ("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook")
    ]
    file = folder / "admission.json"
    whole = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": plugins}
    file.write_text(json.dumps(whole))
    return file


async def test_the_api_server_is_answered_and_nobody_else(tmp_path: Path) -> None:
    authority = CertificateAuthority("control-plane")
    (tmp_path / "client-ca.pem").write_bytes(authority.certificate)
    flags = {GoProgram.APISERVER: [f"--admission-control-config-file={admission_configuration(tmp_path, authority)}"]}
    with prepare(ControlPlaneSpec(extra_flags=flags)) as plane:
        await asyncio.to_thread(_install, plane)
        options = ("--client-ca-file", str(tmp_path / "client-ca.pem"), "--client-name", "kube-apiserver-admission")
        with Site(plane) as site, WebhookProgram(site, tmp_path, *options) as webhook:
            alice = connect(site.alice)
            try:

                async def scheduler() -> str:
                    try:
                        pod = a_pod("p", annotations={CLAIM: "c"})
                        stored = await alice.create(PODS.whole(), pod, "default", dry_run=True)
                    except ApiError as error:
                        return str(error)
                    return str(stored["spec"]["schedulerName"])

                await eventually(scheduler, until=lambda name: name == "gpu-scheduler", seconds=60)
            finally:
                await alice.close()
            anybody = ssl.create_default_context()
            anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
            async with (
                aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=anybody)) as session,
                session.post(f"https://127.0.0.1:{webhook.port}/mutate", data=encoded(a_review(a_pod("p")))) as answer,
            ):
                assert (answer.status, (await answer.json())["message"]) == (401, "a client certificate is needed")


def _install(plane: ControlPlane) -> None:
    subprocess.run(
        (PROGRAM, "install", "--definitions-only", "--apply", "--kubeconfig", plane.kubeconfig),
        check=True,
        capture_output=True,
    )
    kubectl = (str(find(GoProgram.KUBECTL)), f"--kubeconfig={plane.kubeconfig}")
    subprocess.run((*kubectl, "apply", "-f", str(DEPLOY / "rbac.yaml")), check=True, capture_output=True)


async def test_everything_that_is_shipped_is_accepted(site: Site) -> None:
    for folder in ("agent", "controller", "dashboard", "scheduler", "webhook"):
        said = site.kubectl("apply", "--dry-run=server", "--recursive", "-f", str(DEPLOY.parent / folder))
        assert "created (server dry run)" in said or "configured (server dry run)" in said or "unchanged" in said
