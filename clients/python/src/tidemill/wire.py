"""HTTP by httpx: how requests are sent, and what its errors mean."""

from __future__ import annotations

import ssl
from typing import Any

import httpx

from .config import Config
from .errors import BadValue
from .request import Request, Trouble

CONNECTS_WITHIN_S = 5.0
# Longer than the pause between two signs of life of a stream, 15 s.
STREAM_SILENT_S = 45.0
CONNECTIONS = 256


def options(config: Config, timeout_s: float) -> dict[str, Any]:
    """Of a client of either kind. Proxies, keys and authorities come from what the caller says, and not from variables of other programs."""
    if not 0.1 <= timeout_s <= 3600:
        raise BadValue("timeout_s", str(timeout_s), "must be 0.1 to 3600 seconds")
    return {
        "verify": config.trust(),
        "trust_env": False,
        "timeout": httpx.Timeout(timeout_s, connect=CONNECTS_WITHIN_S),
        "limits": httpx.Limits(max_connections=CONNECTIONS),
        "follow_redirects": False,
    }


def sending(request: Request, config: Config, is_stream: bool = False) -> dict[str, Any]:
    """The request, as httpx wants it."""
    said: dict[str, Any] = {
        "method": request.method,
        "url": config.server + request.path,
        # Names of people may have other letters than those of ASCII.
        "headers": {name: value.encode() for name, value in request.all_headers(config.key, config.as_user).items()},
        "content": request.body,
    }
    if request.query:
        said["params"] = list(request.query)
    if is_stream:
        said["timeout"] = httpx.Timeout(STREAM_SILENT_S, connect=CONNECTS_WITHIN_S)
    return said


def trouble(error: Exception) -> Trouble:
    """What an error of httpx says of the request."""
    text = str(error) or type(error).__name__
    if isinstance(error, httpx.ConnectError):
        cause = _certificate(error)
        if cause is not None:
            remedy = "name the authorities of the server's certificate with ca_file= or TIDEMILL_CA_FILE"
            return Trouble(f"its certificate is not trusted: {cause}; {remedy}", is_sent=False, passes=False)
        if "SSL" in text:
            return Trouble(f"it does not speak TLS there: {text}; is it http://?", is_sent=False, passes=False)
        return Trouble(text, is_sent=False)
    if isinstance(error, (httpx.ConnectTimeout, httpx.PoolTimeout)):
        return Trouble(f"no connection in time ({text})", is_sent=False)
    if isinstance(error, httpx.TimeoutException):
        return Trouble(f"no answer in time ({text})", is_sent=True)
    if isinstance(error, (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.InvalidURL)):
        return Trouble(f"the request cannot be sent: {text}", is_sent=False, passes=False)
    return Trouble(f"the connection broke: {text}", is_sent=True)


def _certificate(error: BaseException) -> str | None:
    cause: BaseException | None = error
    for _ in range(10):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return cause.verify_message
        if cause is None:
            return None
        cause = cause.__cause__ or cause.__context__
    return None
