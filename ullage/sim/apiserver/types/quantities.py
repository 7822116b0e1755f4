"""Quantities in the one form the server writes them in: `2000m` is `2`, `1024Mi` is `1Gi`, the number 8 is `"8"`."""

from decimal import Decimal
from functools import lru_cache

from ullage.model.quantity import quantity

_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL = (("E", 18), ("P", 15), ("T", 12), ("G", 9), ("M", 6), ("k", 3), ("", 0), ("m", -3), ("u", -6), ("n", -9))
_KIBI = 1024


@lru_cache(65536)
def canonical(text: str) -> str:
    """Raises ValueError where it is no quantity."""
    number = quantity(text)
    if text.endswith("i") and number == int(number):
        return _binary(int(number))
    if "e" in text.lower().rstrip("E") and not text.endswith("E"):
        return _exponent(number)
    return _decimal(number)


def _binary(number: int) -> str:
    if abs(number) < _KIBI:
        return _decimal(Decimal(number)) if number % 1000 == 0 else str(number)
    power = 0
    while number and number % _KIBI == 0 and power < len(_BINARY) - 1:
        number //= _KIBI
        power += 1
    return f"{number}{_BINARY[power]}"


def _decimal(number: Decimal) -> str:
    if number == 0:
        return "0"
    for suffix, power in _DECIMAL:
        scaled = number.scaleb(-power)
        if scaled == scaled.to_integral_value():
            return f"{int(scaled)}{suffix}"
    return f"{int(number.scaleb(9).to_integral_value(rounding='ROUND_CEILING'))}n"


def _exponent(number: Decimal) -> str:
    for power in range(18, -1, -3):
        scaled = number.scaleb(-power)
        if scaled == scaled.to_integral_value():
            return f"{int(scaled)}e{power}" if power else str(int(scaled))
    return _decimal(number)
