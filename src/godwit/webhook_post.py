"""A signed POST to a webhook: for notifications of a team, and for bridges.

*Rules.*
1. `X-Godwit-Signature: sha256=…` is the HMAC of the body with the sender's secret. `X-Godwit-Delivery` is the same in
   all attempts of one delivery.
2. A redirect is not followed: it could point into the sender's own network.
3. A 4xx response is final, except 408, 425 and 429. After all other errors a retry makes sense.
"""

import hmac
from hashlib import sha256
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from godwit.errors import GodwitError

__all__ = ["WebhookError", "WebhookPoster", "is_webhook"]

TIMEOUT_S = 30.0
COME_AGAIN = (408, 425, 429)


class WebhookError(GodwitError):
    """A webhook has not accepted a request; `is_final`: a retry makes no sense."""

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final


class WebhookPoster:
    """Posts with one secret. It blocks: use it in a thread."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._opener = build_opener(_NoRedirects())

    def post(self, url: str, body: bytes, delivery: str, content_type: str = "application/json") -> None:
        """Send, or raise `WebhookError`."""
        if not is_webhook(url):
            raise WebhookError(f"a webhook needs a URL with http or https, not {url!r}", is_final=True)
        headers = {
            "Content-Type": content_type,
            "User-Agent": "godwit",
            "X-Godwit-Delivery": quote(delivery, safe="."),
            "X-Godwit-Signature": f"sha256={hmac.new(self._secret, body, sha256).hexdigest()}",
        }
        try:
            self._opener.open(Request(url, body, headers, method="POST"), timeout=TIMEOUT_S).close()
        except HTTPError as error:
            error.close()
            is_final = 400 <= error.code < 500 and error.code not in COME_AGAIN
            raise WebhookError(f"{url} answers {error.code} {error.reason}", is_final=is_final) from error
        except (URLError, OSError, ValueError) as error:
            raise WebhookError(f"cannot reach {url}: {error}") from error


def is_webhook(url: str) -> bool:
    """Whether that is a URL with http or https."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc)


class _NoRedirects(HTTPRedirectHandler):
    """(rule 2)"""

    def redirect_request(self, *_: Any) -> None:
        return None
