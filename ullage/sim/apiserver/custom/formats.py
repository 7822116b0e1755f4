"""String formats of structural schemas. A format that is not known accepts everything, as in Kubernetes."""

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from urllib.parse import urlsplit

_DURATION = re.compile(r"[-+]?(?:\d+(?:\.\d*)?(?:ns|us|µs|ms|s|m|h|d|w|\s?(?:sec|min|hr|day|week)s?))+|0")
_UUID = re.compile(r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")
_HOST = re.compile(r"(?=.{1,255}$)[A-Za-z0-9](?:[-A-Za-z0-9]{0,62})(?:\.[A-Za-z0-9][-A-Za-z0-9]{0,62})*\.?")


def _does(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def fits(text: str) -> bool:
        try:
            parse(text)
        except (ValueError, binascii.Error):
            return False
        return True

    return fits


def _date_time(text: str) -> None:
    if "T" not in text.upper():
        raise ValueError(text)
    datetime.fromisoformat(text.upper().replace("Z", "+00:00"))


def _uri(text: str) -> None:
    if not urlsplit(text).scheme:
        raise ValueError(text)


_FORMATS: Mapping[str, Callable[[str], bool]] = {
    "date-time": _does(_date_time),
    "datetime": _does(_date_time),
    "date": _does(date.fromisoformat),
    "duration": lambda text: _DURATION.fullmatch(text) is not None,
    "ipv4": _does(ipaddress.IPv4Address),
    "ipv6": _does(ipaddress.IPv6Address),
    "cidr": _does(ipaddress.ip_network),
    "uuid": lambda text: _UUID.fullmatch(text) is not None,
    "email": lambda text: _EMAIL.fullmatch(text) is not None,
    "hostname": lambda text: _HOST.fullmatch(text) is not None,
    "uri": _does(_uri),
    "byte": _does(lambda text: base64.b64decode(text, validate=True)),
}


def fits_format(name: str, text: str) -> bool:
    known = _FORMATS.get(name)
    return known is None or known(text)
