"""What stands between our provider and moto: records every call, and does what EC2 does and moto does not.

moto knows no lack of capacity, no limits, and no client tokens; here they are, as EC2's documentation has them.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlencode

import aiohttp
from aiohttp import web

from ullage.testing.cloud_contract import CloudTrouble

_BUYS = ("CreateFleet", "RunInstances")
_FLEET = """<?xml version="1.0"?><CreateFleetResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
<requestId>r</requestId><fleetId>fleet-0</fleetId>{errors}<fleetInstanceSet/></CreateFleetResponse>"""
_ERROR_SET = """<errorSet><item><errorCode>{code}</errorCode><errorMessage>{message}</errorMessage>
<lifecycle>on-demand</lifecycle></item></errorSet>"""
_FAILURE = """<?xml version="1.0"?><Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error>
</Errors><RequestID>r</RequestID></Response>"""

Fields = dict[str, str]


@dataclass
class Call:
    """One call as it was made."""

    action: str
    fields: Fields


@dataclass
class Ec2Proxy:
    """An address for boto3 in front of another."""

    upstream: str
    calls: list[Call] = field(default_factory=list)
    trouble: CloudTrouble | None = None
    _answers: dict[str, asyncio.Future[tuple[Fields, web.Response]]] = field(default_factory=dict)
    _terminated: set[str] = field(default_factory=set)

    def actions(self) -> list[str]:
        return [call.action for call in self.calls]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        fields = dict(parse_qsl((await request.read()).decode(), keep_blank_values=True))
        action = fields.get("Action", "")
        self.calls.append(Call(action, fields))
        if action in _BUYS:
            return await self._once(request, fields, lambda: self._buy(request, fields))
        if action == "TerminateInstances" and self._takes(CloudTrouble.DELETE_FAILS):
            return self._cut(request)
        if action == "TerminateInstances":
            self._terminated |= {value for key, value in fields.items() if key.startswith("InstanceId.")}
        return await self._forward(request, fields)

    async def _once(
        self, request: web.Request, fields: Fields, buy: Callable[[], Awaitable[web.Response]]
    ) -> web.StreamResponse:
        """ClientToken: the same purchase has the same answer, another one with its token is refused."""
        if self.trouble is CloudTrouble.THROTTLED:
            return _failure(503, "RequestLimitExceeded", "Request limit exceeded.")
        token, meant = fields.get("ClientToken", ""), _without_date(fields)
        if known := self._answers.get(token):
            before, answer = await asyncio.shield(known)
            if before != meant:
                return _failure(400, "IdempotentParameterMismatch", "The token was used with other parameters.")
            if fields["Action"] == "RunInstances" and self._terminated & set(
                re.findall(r"i-[0-9a-f]+", answer.text or "")
            ):
                return _failure(400, "IdempotentInstanceTerminated", "An instance of this request is terminated.")
            return web.Response(text=answer.text, content_type="text/xml")
        promise = self._answers[token] = asyncio.get_running_loop().create_future()
        answer = await buy()
        promise.set_result((meant, answer))
        if answer.status >= 400:
            del self._answers[token]
        if self._takes(CloudTrouble.LOST_ANSWER):
            return self._cut(request)
        return answer

    async def _buy(self, request: web.Request, fields: Fields) -> web.Response:
        code = "InsufficientInstanceCapacity"
        message = "We currently do not have sufficient p5.48xlarge capacity."
        match self.trouble:
            case CloudTrouble.QUOTA:
                return self._none(fields, "VcpuLimitExceeded", "You have requested more vCPU capacity.", 400)
            case CloudTrouble.NO_CAPACITY:
                return self._none(fields, code, message, 500)
            case CloudTrouble.ONE_LEFT:
                least = fields.get("MinCount") or fields.get("OnDemandOptions.MinTargetCapacity") or "1"
                if int(least) > 1:
                    return self._none(fields, code, message, 500)
                counted = ("MaxCount", "TargetCapacitySpecification.TotalTargetCapacity")
                answer = await self._forward(request, fields | {key: "1" for key in counted if key in fields})
                errors = _ERROR_SET.format(code=code, message=message)
                text = re.sub(r"<errorSet/>|<errorSet></errorSet>", "", answer.text or "")
                if fields["Action"] == "CreateFleet":
                    text = text.replace("</CreateFleetResponse>", f"{errors}</CreateFleetResponse>")
                return web.Response(text=text, content_type="text/xml")
            case _:
                return await self._forward(request, fields)

    def _none(self, fields: Fields, code: str, message: str, status: int) -> web.Response:
        """A fleet comes with errors in a good answer; RunInstances fails."""
        if fields["Action"] == "RunInstances":
            return _failure(status, code, message)
        errors = _ERROR_SET.format(code=code, message=message)
        return web.Response(text=_FLEET.format(errors=errors), content_type="text/xml")

    def _takes(self, trouble: CloudTrouble) -> bool:
        """Whether it is this trouble's turn, which is over then."""
        if self.trouble is not trouble:
            return False
        self.trouble = None
        return True

    def _cut(self, request: web.Request) -> web.StreamResponse:
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    async def _forward(self, request: web.Request, fields: Fields) -> web.Response:
        if fields.get("Action") == "RunInstances":
            fields = fields | {"MinCount": fields["MaxCount"]}  # moto makes the least, EC2 as many as there are
        headers = {key: request.headers[key] for key in ("Authorization", "X-Amz-Date") if key in request.headers}
        headers["Content-Type"] = "application/x-www-form-urlencoded; charset=utf-8"
        async with (
            aiohttp.ClientSession() as session,
            session.post(self.upstream, data=urlencode(fields), headers=headers) as answer,
        ):
            return web.Response(text=await answer.text(), status=answer.status, content_type="text/xml")


def _without_date(fields: Fields) -> Fields:
    return {key: value for key, value in fields.items() if not key.startswith("X-Amz")}


def _failure(status: int, code: str, message: str) -> web.Response:
    return web.Response(text=_FAILURE.format(code=code, message=message), status=status, content_type="text/xml")
