"""Authentication of neighbours: by certificate, or by a secret that all brokers of a network share.

*Theory.* A neighbour must prove its name. With TLS, its certificate, signed by a trusted authority, has the name. With
a secret, the connecting broker sends its name, the name of the other broker, the time, a nonce, and a keyed digest of
all that; the other broker answers with a digest of the same. So the secret itself is never sent, neither side can be
impersonated without it, and a recorded greeting is useless a minute later or a second time. A secret authenticates but
does not encrypt: outside a private network, use TLS.

A neighbour must also choose the same member of a shared subscription for each event (`broker/member_tree.py`).

*Rules.*
1. Without certificates and without a secret, names of brokers are trusted only if they connect from this machine.
2. With both, both must be right.
3. A greeting is valid once, for the two brokers that it names, within `FRESH_S` of its time.
4. Received greetings are remembered while they are valid, at most `HEARD_MAX`. (Only a holder of the secret can send
   more.)
5. There is no link to a broker that chooses members in another way: events would come to two of them, or to none.
"""

import ssl
from hashlib import sha256
from hmac import compare_digest, new
from secrets import token_hex

from godwit.broker.member_tree import CHOICE
from godwit.errors import NotAdmitted, PeerFault
from godwit.runtime.authentication import is_local

__all__ = ["LinkGuard"]

FRESH_S = 60.0
HEARD_MAX = 10_000
GREETING_CHARS_MAX = 256
LINK = "link"  # the cause of all refusals here


class LinkGuard:
    """Authenticates neighbours."""

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
        self._heard: dict[str, float] = {}  # greetings by nonce, with the end of their validity

    def renew_secret(self, secret: bytes) -> None:
        """Change the secret for new links."""
        self._secret = secret

    def check_choice(self, peer: str, choice: int) -> None:
        """`PeerFault` unless a neighbour chooses members of shared subscriptions as this broker. (rule 5)"""
        if choice != CHOICE:
            raise PeerFault(
                f"{peer} and {self.name} choose members of shared subscriptions in different ways ({choice} and "
                f"{CHOICE}): start both with the same version of Godwit"
            )

    def said_to(self, peer: str, names: tuple[str, ...], now: float) -> str:
        """The greeting to a broker that this one has connected to; `names` are those in its certificate."""
        self._check_names(peer, names)
        if not self._secret:
            return ""
        said = f"{now:.3f}:{token_hex(16)}"
        return f"{said}:{self._digest('greeting', self.name, peer, said)}"

    def check_dialler(self, peer: str, greeting: str, host: str, names: tuple[str, ...], now: float) -> str:
        """The answer to a broker that has connected to this one. NotAdmitted if its proof is wrong."""
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
            raise NotAdmitted(f"the greeting of {peer} is too old or too new: do the clocks agree?", LINK)
        self._remember(number, now)
        return self._digest("answer", self.name, peer, said)

    def check_answer(self, peer: str, said: str, answer: str) -> None:
        """Check that the other broker knows the secret, too."""
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
