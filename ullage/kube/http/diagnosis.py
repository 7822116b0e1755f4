"""Diagnosis of a broken connection: one sentence with the cause and what to check.

Every error of the HTTP library and of our own connections ends here.
"""

import socket
import ssl
from datetime import datetime

import aiohttp

from ullage.errors import Unreachable
from ullage.kube.auth import tls
from ullage.kube.http.answer import NotHttp

# OpenSSL's verify codes: stable numbers, unlike their texts.
_EXPIRED, _NOT_YET_VALID = 10, 9
_UNKNOWN_ISSUER = (2, 18, 19, 20, 21)
_WRONG_NAME = (62, 64)

_PERHAPS_TLS = "check that the address begins with https://"


def unreachable(error: BaseException, server: str, trust: tls.ServerTrust, now: datetime) -> Unreachable:
    """The typed error for an exception of the HTTP library, the socket or TLS."""
    return Unreachable(f"the API server at {server} {_what_happened(error, trust, now)}")


def _what_happened(error: BaseException, trust: tls.ServerTrust, now: datetime) -> str:
    return (
        _certificate(error, trust, now)
        or _connecting(error)
        or _tls_alert(error)
        or _talking(error)
        or f"cannot be talked to ({_short(error)})"
    )


def _certificate(error: BaseException, trust: tls.ServerTrust, now: datetime) -> str:
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return _bad_certificate(error.certificate_error, trust, now)
        case ssl.SSLCertVerificationError():
            return _bad_certificate(error, trust, now)
    return ""


def _connecting(error: BaseException) -> str:
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    match error:
        case aiohttp.ClientConnectorDNSError() | socket.gaierror():
            return f"has a name that does not resolve ({cause}); check the address and the DNS"
        case aiohttp.ClientProxyConnectionError() | aiohttp.ClientHttpProxyError():
            return f"cannot be reached through the proxy ({error}); check proxy-url or HTTPS_PROXY"
        case TimeoutError():
            return "did not answer in time; check the network, or whether the server is overloaded"
    if isinstance(cause, ConnectionRefusedError):
        return "refuses connections; check that it runs and that address and port are right"
    return ""


def _talking(error: BaseException) -> str:
    match error:
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientPayloadError():
            return f"closed the connection before the answer was complete ({_short(error)})"
        case ConnectionError() if not isinstance(error, aiohttp.ClientError):
            return f"closed the connection before the answer was complete ({_short(error)})"
        case NotHttp():
            return f"does not speak HTTP as it should ({_one_line(str(error))}); {_PERHAPS_TLS}"
        case aiohttp.ClientResponseError():
            return f"does not speak HTTP as it should ({_one_line(error.message)}); {_PERHAPS_TLS}"
        case aiohttp.ClientConnectorError():
            return f"cannot be connected to ({error.os_error}); check the address and the network"
    return ""


def _bad_certificate(error: BaseException, trust: tls.ServerTrust, now: datetime) -> str:
    code = getattr(error, "verify_code", None)
    if code == _EXPIRED:
        ended = tls.expires(trust.authority) if trust.authority else None
        if trust.authority and ended and ended < now:
            return f"cannot be verified: the CA certificate in {trust.authority.origin} expired on {ended:%Y-%m-%d}"
        return "shows a certificate that has expired; renew the server's certificate (or check this machine's clock)"
    if code == _NOT_YET_VALID:
        return "shows a certificate that is not valid yet; check the clocks of the server and of this machine"
    if code in _UNKNOWN_ISSUER:
        known = trust.authority.origin if trust.authority else "this machine's trusted certificates"
        return f"shows a certificate by an issuer that is not in {known}; check certificate-authority"
    if code in _WRONG_NAME:
        return f"shows a certificate for another name ({_short(error)}); check the address or set tls-server-name"
    return f"shows a certificate that cannot be verified ({_short(error)})"


def _tls_alert(error: BaseException) -> str:
    """Explain the server's TLS alert, which may be wrapped several times. Empty if the error is no TLS alert."""
    cause: BaseException | None = error
    reason = ""
    while cause is not None and not reason:
        reason = (getattr(cause, "reason", None) or "").upper() if isinstance(cause, ssl.SSLError) else ""
        cause = getattr(cause, "os_error", None) or cause.__cause__ or cause.__context__
    if "CERTIFICATE_EXPIRED" in reason:
        return "refuses our client certificate because it has expired; get a new one"
    if "CERTIFICATE_REQUIRED" in reason or "BAD_CERTIFICATE" in reason or "UNKNOWN_CA" in reason:
        return f"refuses our client certificate ({reason}); check client-certificate in the kubeconfig"
    if "WRONG_VERSION_NUMBER" in reason or "RECORD_LAYER" in reason:
        return "does not speak TLS; check whether its address should begin with http://"
    return f"broke off the TLS handshake ({reason})" if reason else ""


def _short(error: BaseException) -> str:
    return f"{type(error).__name__}: {_one_line(str(error))}" if str(error) else type(error).__name__


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200]
