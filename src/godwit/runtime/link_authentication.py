"""Which broker is at the other end of a link: by its certificate, or by a secret that all brokers of a network share.

*Theory.* A neighbour that claims a name must show it. With TLS its certificate, signed by an authority that we trust,
names it. With a secret the dialler sends its name, the name of whom it means, the time, a number that comes once, and a
digest of all that under the secret; the dialled broker answers with a digest of the same. So the secret itself never
travels, neither side can be forged by whoever does not have it, and what was overheard is of no use a minute later or a
second time. A secret proves who is there and hides nothing of what follows: beyond a network of one's own, use TLS.

*Rules.*
1. Without certificates and without a secret, brokers are taken for what they say only when they dial from this machine.
2. With both, both must be right.
3. A greeting counts once, for the two brokers that it names, within `FRESH_S` of its time.
4. Greetings that were heard are remembered for as long as they count, `HEARD_MAX` at most. (Only who has the secret
   makes more.)
"""

import ssl
from hashlib import sha256
from hmac import compare_digest, new
from secrets import token_hex

from godwit.errors import NotAdmitted
from godwit.runtime.authentication import is_local

__all__ = ["LinkGuard"]

FRESH_S = 60.0
HEARD_MAX = 10_000
GREETING_CHARS_MAX = 256
LINK = "link"  # the cause of all refusals here


class LinkGuard:
    """Tells neighbours from those that say so."""

    def __init__(
        self,
        name: str,
        *,
        secret: bytes = b"",
        needs_certificate: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.name = name
        self.tls = tls  # to dial with
        self._secret = secret
        self._needs_certificate = needs_certificate
        self._heard: dict[str, float] = {}  # greetings, by their number, and when they count no more

    def renew_secret(self, secret: bytes) -> None:
        """Have another secret for links that come from now on."""
        self._secret = secret

    def said_to(self, peer: str, names: tuple[str, ...], now: float) -> str:
        """What to say to a broker that we have dialled; `names` are those in its certificate."""
        self._check_names(peer, names)
        if not self._secret:
            return ""
        said = f"{now:.3f}:{token_hex(16)}"
        return f"{said}:{self._digest('greeting', self.name, peer, said)}"

    def check_dialler(self, peer: str, greeting: str, host: str, names: tuple[str, ...], now: float) -> str:
        """What to answer to a broker that has dialled us. NotAdmitted: it is not the one that it says."""
        if not self._secret and not self._needs_certificate and not is_local(host):  # rule 1
            raise NotAdmitted(
                "brokers on other machines must show a certificate or know the secret of this network", LINK
            )
        self._check_names(peer, names)
        if not self._secret:
            return ""
        said, _, digest = greeting[:GREETING_CHARS_MAX].rpartition(":")
        if not compare_digest(digest.encode(), self._digest("greeting", peer, self.name, said).encode()):
            raise NotAdmitted(f"the peer that calls itself {peer} does not know the secret of this network", LINK)
        at, _, number = said.partition(":")
        if not at.replace(".", "", 1).isdigit() or abs(float(at) - now) > FRESH_S:
            raise NotAdmitted(f"the greeting of {peer} is not of now: do the clocks of the two machines agree?", LINK)
        self._remember(number, now)
        return self._digest("answer", self.name, peer, said)

    def check_answer(self, peer: str, said: str, answer: str) -> None:
        """Whether the broker that we have dialled knows the secret, too."""
        if self._secret:
            right = self._digest("answer", peer, self.name, said.rpartition(":")[0])
            if not compare_digest(answer[:GREETING_CHARS_MAX].encode(), right.encode()):
                raise NotAdmitted(f"the broker at the address of {peer} does not know the secret of this network", LINK)

    def _check_names(self, peer: str, names: tuple[str, ...]) -> None:
        if self._needs_certificate and peer not in names:
            shown = f"names {', '.join(names)}" if names else "is missing"
            raise NotAdmitted(f"the certificate of {peer} {shown}: it must name {peer}", LINK)

    def _digest(self, *parts: str) -> str:
        return new(self._secret, "\0".join(parts).encode("utf-8", "surrogatepass"), sha256).hexdigest()

    def _remember(self, number: str, now: float) -> None:
        if number in self._heard:
            raise NotAdmitted("this greeting was used before", LINK)
        for old in [old for old, until in self._heard.items() if until < now]:
            del self._heard[old]
        if len(self._heard) >= HEARD_MAX:
            raise NotAdmitted("too many brokers have dialled within a minute", LINK)
        self._heard[number] = now + 2 * FRESH_S
