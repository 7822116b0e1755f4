"""Name formats that Kubernetes accepts, with its messages about other names."""

import re
from functools import lru_cache

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")

_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_CONFIG_KEY_WORDS = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_LABEL_WORDS = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN_WORDS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_QUALIFIED_WORDS = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_LABEL_VALUE_WORDS = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_QUALIFIED_SHAPE = (
    "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. "
    "'example.com/MyName')"
)


def _length(text: str, maximum: int) -> tuple[str, ...]:
    return (f"must be no more than {maximum} bytes",) if len(text.encode()) > maximum else ()


def _characters(text: str, maximum: int) -> tuple[str, ...]:
    return (f"must be no more than {maximum} characters",) if len(text) > maximum else ()


@lru_cache(65536)
def dns_label(text: str) -> tuple[str, ...]:
    """Errors of an RFC 1123 label; empty if it is one."""
    if _LABEL.fullmatch(text):
        return _length(text, 63)
    only_dots = _SUBDOMAIN.fullmatch(text) is not None
    return (*_length(text, 63), "must not contain dots" if only_dots else _LABEL_WORDS)


@lru_cache(65536)
def dns_subdomain(text: str) -> tuple[str, ...]:
    return _characters(text, 253) + (() if _SUBDOMAIN.fullmatch(text) else (_SUBDOMAIN_WORDS,))


@lru_cache(65536)
def config_key(text: str) -> tuple[str, ...]:
    """Keys of config maps and secrets: they become file names."""
    found = _characters(text, 253)
    if not _CONFIG_KEY.fullmatch(text):
        return (*found, _CONFIG_KEY_WORDS)
    if text in (".", ".."):
        return (*found, f"must not be '{text}'")
    return (*found, "must not start with '..'") if text.startswith("..") else found


@lru_cache(65536)
def qualified_name(text: str) -> tuple[str, ...]:
    """`name` or `example.com/name`: keys of labels, annotations and taints."""
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        return (_QUALIFIED_SHAPE,)
    found: tuple[str, ...] = ()
    if slash:
        found = (
            ("prefix part must be non-empty",)
            if not prefix
            else tuple(f"prefix part {w}" for w in dns_subdomain(prefix))
        )
    if not name:
        found += ("name part must be non-empty",)
    found += tuple(f"name part {w}" for w in _length(name, 63))
    return found + (() if _QUALIFIED.fullmatch(name) else (_QUALIFIED_WORDS,))


@lru_cache(65536)
def label_value(text: str) -> tuple[str, ...]:
    return _length(text, 63) + (() if _LABEL_VALUE.fullmatch(text) else (_LABEL_VALUE_WORDS,))
