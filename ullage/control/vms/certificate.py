"""Serving certificate of the permit server: made and renewed in a Secret that replicas share, or given as files.

Agents trust what the ConfigMap `ullage-scheduler-ca` says, which the leader writes: key `ca.crt`.
"""

from dataclasses import dataclass

from ullage.certs.files import CertificateFiles, FileFollower, read_files
from ullage.certs.rotator import CertRotator, SecretName
from ullage.certs.serving import CertificateBundle, ReloadingTlsContext
from ullage.certs.tls_secret import CertIssuer
from ullage.clock import Clock
from ullage.errors import AlreadyExists, Conflict, NotFound
from ullage.kube.client.api import KubeApi, MergePatch
from ullage.kube.client.resources import CONFIG_MAPS

CA_CONFIG_MAP = "ullage-scheduler-ca"
CA_KEY = "ca.crt"


@dataclass(frozen=True, slots=True, kw_only=True)
class PermitCertificate:
    """Names that agents call the server by, and where its certificate comes from."""

    names: tuple[str, ...]
    secret: SecretName
    files: CertificateFiles | None = None


class CaConfigMap:
    """Publishes the CA bundle for agents."""

    def __init__(self, api: KubeApi, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._written: bytes | None = None

    async def trust(self, trusted: bytes | None) -> None:
        """Write the bundle, where it is another one. Raises ApiError."""
        if trusted is None or trusted == self._written:
            return
        data = {CA_KEY: trusted.decode("ascii")}
        try:
            await self._api.patch(CONFIG_MAPS, CA_CONFIG_MAP, MergePatch({"data": data}), self._namespace)
        except NotFound:
            body = {"metadata": {"name": CA_CONFIG_MAP}, "data": data}
            try:
                await self._api.create(CONFIG_MAPS, body, self._namespace)
            except AlreadyExists as error:
                raise Conflict("the ConfigMap was created meanwhile") from error
        self._written = trusted


class PermitTls:
    """TLS context of the VM servers, kept current by `run`."""

    def __init__(self, api: KubeApi, chosen: PermitCertificate, clock: Clock, seed: int) -> None:
        self._chosen = chosen
        self._sink = CaConfigMap(api, chosen.secret.namespace)
        self._rotator = CertRotator(api, chosen.secret, CertIssuer(chosen.names), self._sink, clock, seed)
        self._tls = ReloadingTlsContext()
        self.context = self._tls.context

    async def open(self) -> None:
        """Load a certificate. Raises ApiError, UserError."""
        files = self._chosen.files
        found = await self._rotator.open() if files is None else read_files(files)
        self._serve(found)
        await self._sink.trust(found.trusted)

    async def run(self) -> None:
        """Keep the certificate current, until cancelled."""
        files = self._chosen.files
        keeper = self._rotator if files is None else FileFollower(files, self._sink)
        await keeper.run(self._serve)

    def _serve(self, served: CertificateBundle) -> None:
        self._tls.load(served)
