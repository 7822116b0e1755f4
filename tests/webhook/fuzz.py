"""Bodies nobody should send, in a row that a seed decides."""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from ullage.kube.client.resource import JsonObject
from ullage.model.allocation import CLAIM
from ullage.testing.admission import CLAIMS_V1, a_review, encoded
from ullage.testing.builders import a_container, a_pod

_WRONG: tuple[Any, ...] = (None, True, -1, 1e308, "", "x", [], [[]], {}, {"a": {"b": []}}, "\u0000", "💥" * 50)
_HUGE_BYTES = (100_000, 1_000_000, 8_000_000)
_DEPTHS = (500, 2_000, 50_000)


def _good(chance: random.Random) -> JsonObject:
    container = a_container(limits={"nvidia.com/gpu": "1"}) | {"env": [{"name": "A", "value": "b"}]}
    pod = a_pod("p", annotations={CLAIM: "c"}, containers=[container], initContainers=[a_container("i")])
    claim = {"metadata": {"name": "c"}, "spec": {"devices": {"count": 1}}}
    return chance.choice(
        [
            a_review(pod),
            a_review(pod, pod),
            a_review(pod, pod, subResource="status"),
            a_review(pod, pod, subResource="ephemeralcontainers"),
            a_review({"metadata": {"annotations": {"gpu.scheduling/allocated": "n:0"}}}, subResource="binding"),
            a_review(claim, resource=CLAIMS_V1),
            a_review(claim, claim, resource=CLAIMS_V1),
        ]
    )


def _places(thing: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = thing.items() if isinstance(thing, dict) else enumerate(thing) if isinstance(thing, list) else ()
    for key, value in inner:
        yield (*path, key)
        yield from _places(value, (*path, key))


def _put(thing: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        thing = thing[key]
    thing[path[-1]] = value


def _wrong(chance: random.Random) -> Any:
    """A value of its own: what is put in one place must not change in another."""
    return json.loads(json.dumps(chance.choice(_WRONG)))


def _copied(chance: random.Random) -> JsonObject:
    copy: JsonObject = json.loads(json.dumps(_good(chance)))
    return copy


def truncated(chance: random.Random) -> bytes:
    body = encoded(_good(chance))
    return body[: chance.randrange(len(body))]


def flipped(chance: random.Random) -> bytes:
    body = bytearray(encoded(_good(chance)))
    for _ in range(chance.randint(1, 8)):
        body[chance.randrange(len(body))] = chance.randrange(256)
    return bytes(body)


def wrong_types(chance: random.Random) -> bytes:
    review = _copied(chance)
    for _ in range(chance.randint(1, 4)):
        _put(review, chance.choice(list(_places(review))), _wrong(chance))
    return encoded(review)


def left_out(chance: random.Random) -> bytes:
    review = _copied(chance)
    path = chance.choice(list(_places(review)))
    holder = review
    for key in path[:-1]:
        holder = holder[key]
    del holder[path[-1]]
    return encoded(review)


def wrong_uid(chance: random.Random) -> bytes:
    review = _copied(chance)
    review["request"]["uid"] = chance.choice([*_WRONG, "u" * 300, "u" * 100_000])
    return encoded(review)


def huge(chance: random.Random) -> bytes:
    review = _copied(chance)
    size = chance.choices(_HUGE_BYTES, weights=(8, 3, 1))[0]
    _put(review, chance.choice([("request", "name"), ("kind",), ("request", "object")]), "x" * size)
    return encoded(review)


def deep(chance: random.Random) -> bytes:
    depth = chance.choice(_DEPTHS)
    opening, closing = chance.choice([(b"[", b"]"), (b'{"a":', b"}")])
    nested = opening * depth + b"1" + closing * depth
    marked = _copied(chance)
    _put(marked, chance.choice(list(_places(marked))), "@here@")
    return chance.choice([nested, encoded(marked).replace(b'"@here@"', nested)])


def noise(chance: random.Random) -> bytes:
    return chance.randbytes(chance.choice((0, 1, 10, 1000, 60_000)))


def repeated_keys(chance: random.Random) -> bytes:
    body = encoded(_good(chance))
    return body.replace(b'"request": {', b'"request": {"uid": 7, "uid": "first", ', 1) + chance.choice(
        (b"", b" {}", b"]")
    )


KINDS: tuple[Callable[[random.Random], bytes], ...] = (
    truncated,
    flipped,
    wrong_types,
    left_out,
    wrong_uid,
    deep,
    noise,
    repeated_keys,
)
HUGE_EVERY = 25


def bodies(seed: int, count: int) -> Iterator[tuple[str, bytes]]:
    """So many, each with the kind it is of."""
    chance = random.Random(seed)
    for number in range(count):
        kind = huge if number % HUGE_EVERY == 0 else chance.choice(KINDS)
        yield kind.__name__, kind(chance)
