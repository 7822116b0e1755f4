"""JSON in and out. Objects are kept as encoded bytes; a decoded copy is made for every caller that may change it."""

from typing import Any, Protocol

import msgspec

JsonObject = dict[str, Any]

encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder()


def decode(body: bytes) -> Any:
    """Raises ValueError where it is not JSON."""
    try:
        return _decoder.decode(body)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from error


def copied(obj: JsonObject) -> JsonObject:
    """A copy that shares nothing with the original. Encoding and decoding is faster than walking it."""
    result: JsonObject = _decoder.decode(encode(obj))
    return result


class Randomness(Protocol):
    """Methods of `random.Random` that the server uses."""

    def choice(self, seq: str) -> str: ...

    def getrandbits(self, k: int) -> int: ...

    def random(self) -> float: ...


def without_nulls(value: Any) -> Any:
    """The value with null members of objects left out: to a typed decoder, null and absent are one."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value
