"""Resource quantities as Kubernetes writes them (`500m`, `8Gi`, `1e3`), read exactly and compared as integers.

Amounts are integer thousandths of the base unit (milli-cores, milli-bytes, milli-GPUs): exact sums, no rounding drift.
"""

import re
from decimal import Decimal, InvalidOperation
from functools import lru_cache

from ullage.model.units import Milli

_SUFFIX = {
    "": Decimal(1), "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"),
    "k": Decimal(10) ** 3, "M": Decimal(10) ** 6, "G": Decimal(10) ** 9,
    "T": Decimal(10) ** 12, "P": Decimal(10) ** 15, "E": Decimal(10) ** 18,
    "Ki": Decimal(2) ** 10, "Mi": Decimal(2) ** 20, "Gi": Decimal(2) ** 30,
    "Ti": Decimal(2) ** 40, "Pi": Decimal(2) ** 50, "Ei": Decimal(2) ** 60,
}  # fmt: skip
_BINARY = ((60, "Ei"), (50, "Pi"), (40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki"))
_SHAPE = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))((?:[eE][+-]?\d{1,3})|[KMGTPE]i|[numkMGTPE]|)")


def quantity(text: str | int | float) -> Decimal:
    """Number a quantity stands for. Raises ValueError with the text in it."""
    match = _SHAPE.fullmatch(str(text))
    if match is None:
        raise ValueError(f"{text!r} is not a quantity: expected a number with an optional suffix such as m, k, Ki, Gi")
    number, suffix = match.groups()
    try:
        return Decimal(number) * _SUFFIX[suffix] if suffix in _SUFFIX else Decimal(number + suffix)
    except InvalidOperation as error:
        raise ValueError(f"{text!r} is not a quantity") from error


def cores_text(thousandths: int) -> str:
    """Shortest exact quantity for thousandths of a core: 4, 250m."""
    return str(thousandths // 1000) if thousandths % 1000 == 0 else f"{thousandths}m"


def bytes_text(size: int) -> str:
    """Shortest exact quantity for bytes: 16Gi, 1536Mi, 1000."""
    for power, suffix in _BINARY:
        if size and size % (1 << power) == 0:
            return f"{size >> power}{suffix}"
    return str(size)


@lru_cache(maxsize=4096)  # a cluster writes the same few quantities over and over
def milli(text: str | int | float) -> Milli:
    """Thousandths, rounded up as Kubernetes does when it must: a request is never made smaller by reading it."""
    exact = quantity(text) * 1000
    whole = int(exact)
    return Milli(whole + 1 if exact > whole else whole)
