"""TLS of the server: one context for its whole life, into which each new certificate is loaded."""

import asyncio
import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ullage.certs.authority import CertificatePair, der_of
from ullage.errors import Unreachable, UserError
from ullage.observe.probes import ListenAddress

_HANDSHAKE_SECONDS = 5.0
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}
"""Addresses to call for a server that listens on all addresses of this machine."""


@dataclass(frozen=True, slots=True)
class CertificateBundle:
    """Serving certificate, and the CA bundle callers trust; None if the CA bundle is registered elsewhere."""

    pair: CertificatePair
    trusted: bytes | None


class ReloadingTlsContext:
    """TLS context of the server. Open connections keep their certificate; new handshakes get the one loaded last."""

    def __init__(self) -> None:
        self.context = _new_context()
        self.current: CertificateBundle | None = None

    def load(self, served: CertificateBundle) -> bool:
        """Load a certificate; True if it differs from the one before.

        Raises UserError, and goes on with what it has, if certificate and key do not belong together.
        """
        changed = self.current is None or served.pair != self.current.pair
        if changed:
            with _as_file(served.pair) as path:
                _load(_new_context(), path)  # a dry run: a context that got half of a pair fails every handshake
                _load(self.context, path)
        self.current = served
        return changed


def _new_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def _load(context: ssl.SSLContext, path: str) -> None:
    def refuse_encrypted() -> str:
        raise UserError("the key of the serving certificate is encrypted; give one without a passphrase")

    try:
        context.load_cert_chain(path, password=refuse_encrypted)
    except (ssl.SSLError, OSError) as error:
        raise UserError(f"not a certificate and its key in PEM ({error}); check that they belong together") from error


@contextmanager
def _as_file(pair: CertificatePair) -> Iterator[str]:
    """Path of a file for OpenSSL, which reads only files: in memory if the system can, else private and temporary."""
    content = pair.certificate.rstrip() + b"\n" + pair.key
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("ullage-serving"), "wb", buffering=0) as file:
            file.write(content)
            yield f"/proc/self/fd/{file.fileno()}"
        return
    with tempfile.NamedTemporaryFile(prefix="ullage-", suffix=".pem") as kept:
        kept.write(content)
        kept.flush()
        yield kept.name


async def check_served(address: ListenAddress, served: CertificateBundle, name: str) -> None:
    """Call the server as the API server will. Raises Unreachable unless it shows this very certificate.

    Where it is not known whom callers trust, who issued it is not looked at.
    """
    trusted = served.trusted
    context = ssl.create_default_context(cadata=trusted.decode("ascii") if trusted else None)
    if trusted is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    host = _EVERYWHERE.get(address.host, address.host)
    try:
        async with asyncio.timeout(_HANDSHAKE_SECONDS):
            _, writer = await asyncio.open_connection(host, address.port, ssl=context, server_hostname=name)
    except (OSError, TimeoutError) as error:  # an SSLError is an OSError, too
        raise Unreachable(f"https://{address} does not answer: {error}") from error
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    if shown != der_of(served.pair.certificate):
        raise Unreachable(f"https://{address} serves another certificate")
