"""Which names Kubernetes accepts, and what it says about the others."""

import re
from functools import lru_cache

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")

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
_LABEL_1035_WORDS = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
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


@lru_cache(65536)
def dns_label(text: str) -> tuple[str, ...]:
    """What is wrong with an RFC 1123 label; nothing if it is one."""
    return _length(text, 63) + (() if _LABEL.fullmatch(text) else (_LABEL_WORDS,))


@lru_cache(65536)
def dns_subdomain(text: str) -> tuple[str, ...]:
    return _length(text, 253) + (() if _SUBDOMAIN.fullmatch(text) else (_SUBDOMAIN_WORDS,))


def dns_label_1035(text: str) -> tuple[str, ...]:
    return _length(text, 63) + (() if _LABEL_1035.fullmatch(text) else (_LABEL_1035_WORDS,))


def path_segment(text: str) -> tuple[str, ...]:
    """The loosest rule: what may be part of a URL."""
    if text in (".", ".."):
        return (f"may not be '{text}'",)
    return tuple(f"may not contain '{bad}'" for bad in ("/", "%") if bad in text)


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
