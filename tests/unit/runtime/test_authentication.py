"""Who is let in, by what it shows: tokens, passwords, certificates, nothing."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from godwit.broker.messages import Attach, Denied, Request, Subscribe
from godwit.errors import PeerFault, SecurityError
from godwit.filters.language import parse
from godwit.runtime import security
from godwit.runtime.authentication import Authenticator, Credentials, LocalAuthenticator, Principal
from godwit.runtime.link_authentication import LinkGuard
from godwit.runtime.rate_limits import FailedAttempts, HostConnections, TokenBucket, TrafficLimits
from godwit.runtime.security import SecuritySettings, authenticator_from
from godwit.runtime.tls import LinkSettings, TlsSettings, client_context, link_guard, server_context
from godwit.runtime.users import hashed
from godwit.runtime.wire import Intro

SECRET = "a secret that is long enough, isn't it?"
FAR = 4_000_000_000
ELSEWHERE = "192.0.2.7"


def admitted(authenticator: Authenticator, **shown: str) -> Principal:
    return asyncio.run(authenticator.admit(Credentials(**{"host": ELSEWHERE, **shown})))


def refused(authenticator: Authenticator, **shown: str) -> str:
    with pytest.raises(PeerFault) as raised:
        admitted(authenticator, **shown)
    for secret in (shown.get("password"), shown.get("token")):
        assert not secret or secret not in str(raised.value)
    return str(raised.value)


def users_file(folder: Path, text: str) -> str:
    path = folder / "users.toml"
    path.write_text(text)
    return str(path)


def an_entry(password: str = "right") -> str:
    return f'password = "{hashed(password, rounds=1, memory_kib=8, lanes=1)}"'


# ---------------------------------------------------------------- names


def test_without_users_only_this_machine_comes_in() -> None:
    authenticator = authenticator_from(SecuritySettings())
    assert isinstance(authenticator, LocalAuthenticator)
    for host in ("127.0.0.1", "::1", "::ffff:127.0.0.1", ""):
        assert admitted(authenticator, host=host).is_admin
    for host in (ELSEWHERE, "::ffff:192.0.2.7", "128.0.0.1", "an unknown host"):
        assert "its own machine" in refused(authenticator, host=host)


def test_clients_are_named_after_their_users() -> None:
    ann = Principal("ann", clients=["van 7"])
    assert [ann.name_of(name) for name in ("ann", "ann/phone", "van 7", "bob", "annabel")] == [
        *("ann", "ann/phone", "van 7", "ann/bob", "ann/annabel"),
    ]
    assert ann.checked(Attach("ann/phone")).client == "ann/phone"
    for name in ("bob", "annabel", "", "bob/ann"):
        with pytest.raises(PeerFault, match="is not a name for a client of ann"):
            ann.checked(Attach(name))
    assert Principal().name_of("anything") == "anything"


def test_nothing_that_is_secret_is_shown() -> None:
    who = Credentials("h", "c", "u", "hunter2", "ey.token")
    assert "hunter2" not in f"{who} {who!r}"
    assert "ey.token" not in repr(who)
    assert "hunter2" not in repr(Intro(user="u", password="hunter2"))
    assert "ey.token" not in repr(Intro(token="ey.token"))


# ---------------------------------------------------------------- passwords and certificates


def test_a_user_comes_in_by_its_password_and_may_do_what_it_was_granted(tmp_path: Path) -> None:
    rights = "subscribe = [\"kind = 'parking'\"]\ncontext = { role = 'medic' }"
    text = f"[users.ann]\n{an_entry()}\n{rights}\n[users.bob]\n"
    authenticator = authenticator_from(SecuritySettings(users=users_file(tmp_path, text), asserted=("role",)))
    ann = admitted(authenticator, user="ann", password="right")
    assert ann.asserted == {"role": "medic"}
    wish = ann.checked(Request(1, Subscribe(("ann", "1"), parse("kind = 'fire'")))).wish
    assert isinstance(wish, Denied)
    wrong = {refused(authenticator, user=user, password="hunter3") for user in ("ann", "bob", "nobody", "")}
    assert wrong == {security.WRONG}
    assert (
        refused(authenticator, user="ann", host="127.0.0.1") == security.WRONG
    )  # who shows something wrong is not nobody
    assert admitted(authenticator, host="127.0.0.1").is_admin
    assert "requires a user" in refused(authenticator)


def test_nobody_in_particular_can_be_kept_out_altogether(tmp_path: Path) -> None:
    path = users_file(tmp_path, f"[users.ann]\n{an_entry()}\n")
    authenticator = authenticator_from(SecuritySettings(anonymous="never", users=path))
    assert "requires a user" in refused(authenticator, host="127.0.0.1")
    with pytest.raises(SecurityError, match="no client could connect"):
        authenticator_from(SecuritySettings(anonymous="never"))


def test_a_certificate_is_enough_for_users_of_whom_that_is_said(tmp_path: Path) -> None:
    path = users_file(tmp_path, "[users.van]\ncertificate = true\n[users.ann]\n")
    authenticator = authenticator_from(SecuritySettings(users=path))
    assert admitted(authenticator, certificate="van").user == "van"
    for name in ("ann", "stranger"):
        assert "by certificate" in refused(authenticator, certificate=name)


def test_whoever_guesses_must_wait_and_who_is_known_need_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000.0]
    monkeypatch.setattr(security, "monotonic", lambda: now[0])
    path = users_file(tmp_path, f"[users.ann]\n{an_entry()}\n[users.bob]\n{an_entry()}\n")
    authenticator = authenticator_from(SecuritySettings(users=path))
    admitted(authenticator, user="ann", password="right")
    for _ in range(5):
        assert refused(authenticator, user="ann", password="hunter3") == security.WRONG
        assert refused(authenticator, user="bob", password="hunter3") == security.WRONG
    assert "try again in" in refused(authenticator, user="ann", password="hunter3")
    assert "try again in" in refused(authenticator, user="bob", password="right")
    assert admitted(authenticator, user="ann", password="right").user == "ann"  # it was right before
    assert admitted(authenticator, user="bob", password="right", host="192.0.2.8").user == "bob"
    now[0] += 61
    assert admitted(authenticator, user="bob", password="right").user == "bob"


def test_what_is_remembered_of_a_failed_attempt_is_small_and_of_no_clock_that_is_set(tmp_path: Path) -> None:
    authenticator = authenticator_from(SecuritySettings(users=users_file(tmp_path, f"[users.ann]\n{an_entry()}\n")))
    assert isinstance(authenticator, security.ConfiguredAuthenticator)
    assert refused(authenticator, user="a" * 60_000, password="x") == security.WRONG
    assert max(len(user) for _, user in authenticator._attempts._failed) <= 64
    assert not hasattr(security, "time")


# ---------------------------------------------------------------- tokens


def public(key: Any) -> bytes:
    return bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


RSA_KEY = rsa.generate_private_key(65_537, 2_048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
ED_KEY = ed25519.Ed25519PrivateKey.generate()
KINDS: list[tuple[str, Any, bytes]] = [
    ("HS256", SECRET, SECRET.encode() + b"\n"),
    ("RS256", RSA_KEY, public(RSA_KEY)),
    ("ES256", EC_KEY, public(EC_KEY)),
    ("EdDSA", ED_KEY, public(ED_KEY)),
]


@pytest.fixture
def door_with(tmp_path: Path) -> Callable[..., Authenticator]:
    def make(content: bytes, **more: Any) -> Authenticator:
        path = tmp_path / "key"
        path.write_bytes(content)
        return authenticator_from(SecuritySettings(token_key=str(path), **more))

    return make


def claims(**more: Any) -> dict[str, Any]:
    return {"sub": "ann", "exp": FAR, "godwit": {"subscribe": ["*"], "context": {"role": "medic"}}, **more}


@pytest.mark.parametrize(("algorithm", "key", "content"), KINDS)
def test_a_token_lets_its_user_in(
    door_with: Callable[..., Authenticator], algorithm: str, key: Any, content: bytes
) -> None:
    authenticator = door_with(content, asserted=("role",))
    token = jwt.encode(claims(), key, algorithm)
    ann = admitted(authenticator, token=token)
    assert (ann.user, ann.until, ann.asserted) == ("ann", FAR, {"role": "medic"})
    assert not ann.grants.is_everything
    assert admitted(authenticator, user="ann", password=token).user == "ann"  # as MQTT clients have it
    assert "another user's" in refused(authenticator, user="bob", password=token)
    assert "signature is wrong" in refused(
        authenticator, token=token[:-6] + ("AAAAAA" if token[-6:] != "AAAAAA" else "BBBBBB")
    )


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (claims(exp=1), "it has expired"),
        ({"sub": "ann"}, "sub and exp"),
        ({"exp": FAR}, "sub and exp"),
        (claims(nbf=FAR), "it is not valid yet"),
        (claims(sub="a/b"), "no slash"),
        (claims(aud="others"), "another audience"),
        (claims(godwit={"publsh": []}), "unknown field"),
        (claims(godwit={"publish": ["x <"]}), "line 1, column 4"),
        (claims(godwit={"context": {"rank": 1}}), "context has rank"),
        ({"sub": "ann", "exp": FAR}, "grants nothing"),
        (claims(exp="soon"), "it is not a token"),
        (claims(exp=str(FAR)), "must be numbers"),
        (claims(nbf="1"), "must be numbers"),
        (claims(iat=True), "must be numbers"),
        (claims(exp=10**400), "it is not a token"),
    ],
)
def test_a_token_that_is_not_right_is_refused(
    door_with: Callable[..., Authenticator], said: dict[str, Any], reason: str
) -> None:
    authenticator = door_with(SECRET.encode(), asserted=("role",))
    assert reason in refused(authenticator, token=jwt.encode(said, SECRET, "HS256"))


def test_issuer_and_audience_are_those_of_the_settings(door_with: Callable[..., Authenticator]) -> None:
    authenticator = door_with(SECRET.encode(), asserted=("role",), token_issuer="us", token_audience="godwit")
    assert admitted(authenticator, token=jwt.encode(claims(iss="us", aud="godwit"), SECRET)).user == "ann"
    assert "another issuer" in refused(authenticator, token=jwt.encode(claims(iss="them", aud="godwit"), SECRET))
    assert "another audience" in refused(authenticator, token=jwt.encode(claims(iss="us", aud="x"), SECRET))
    assert "must have" in refused(authenticator, token=jwt.encode(claims(aud="godwit"), SECRET))


def test_no_token_chooses_its_own_algorithm(door_with: Callable[..., Authenticator]) -> None:
    authenticator = door_with(public(RSA_KEY), asserted=("role",))
    assert "no key is for it" in refused(authenticator, token=jwt.encode(claims(), None, "none"))  # type: ignore[arg-type]
    import base64
    import hashlib
    import hmac

    def part(data: bytes) -> bytes:
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    head = part(b'{"alg":"HS256","typ":"JWT"}') + b"." + part(json.dumps(claims()).encode())
    forged = head + b"." + part(hmac.new(public(RSA_KEY), head, hashlib.sha256).digest())
    assert "no key is for it" in refused(authenticator, token=forged.decode())
    assert "no key is for it" in refused(
        authenticator, token=jwt.encode(claims(), RSA_KEY, "RS512")
    )  # not among the defaults
    for nonsense in ("", "x", "a.b.c", "ey.ey.ey", "ey" * 20_000, "ey\0.ey.ey"):
        if nonsense:
            assert "token" in refused(authenticator, token=nonsense)


def test_a_set_of_keys_is_told_apart_by_kid(door_with: Callable[..., Authenticator]) -> None:
    keys = []
    for id, key in (("one", EC_KEY), ("two", ec.generate_private_key(ec.SECP256R1()))):
        keys.append({**json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key())), "kid": id})
    keys.append({"kty": "RSA", "use": "enc", "n": "AQ", "e": "AQAB"})
    authenticator = door_with(json.dumps({"keys": keys}).encode(), asserted=("role",))
    assert admitted(authenticator, token=jwt.encode(claims(), EC_KEY, "ES256", headers={"kid": "one"})).user == "ann"
    assert "signature" in refused(authenticator, token=jwt.encode(claims(), EC_KEY, "ES256", headers={"kid": "two"}))
    assert "no key" in refused(authenticator, token=jwt.encode(claims(), EC_KEY, "ES256", headers={"kid": "three"}))
    assert "which key" in refused(authenticator, token=jwt.encode(claims(), EC_KEY, "ES256"))


def test_without_grants_of_its_own_a_token_has_those_of_the_user_file(
    door_with: Callable[..., Authenticator], tmp_path: Path
) -> None:
    path = users_file(tmp_path, "[users.ann]\npublish = ['*']\nsubscribe = ['*']\nadmin = true\n")
    authenticator = door_with(SECRET.encode(), users=path)
    ann = admitted(authenticator, token=jwt.encode({"sub": "ann", "exp": FAR}, SECRET))
    assert (ann.grants.is_everything, ann.is_admin, ann.until) == (True, True, FAR)
    assert "accepts no tokens" in refused(authenticator_from(SecuritySettings(users=path)), token="x")


@pytest.mark.parametrize(
    ("content", "more", "reason"),
    [
        (b"short", {}, "32 or more"),
        (b"{}", {}, "no JWKS"),
        (b'{"keys": [3]}', {}, "no JWKS"),
        (b'{"keys": [{"kty": "oct", "k": "AAAA"}]}', {}, "32 bytes or more"),
        (json.dumps({"keys": [json.loads(jwt.algorithms.ECAlgorithm.to_jwk(EC_KEY))]}).encode(), {}, "private key"),
        (b"-----BEGIN PUBLIC KEY-----\nx\n-----END PUBLIC KEY-----", {}, "no public key"),
        (
            ED_KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
            {},
            "the broker needs the public one",
        ),
        (SECRET.encode(), {"token_algorithms": ("none",)}, "token_algorithms: none: known are"),
        (SECRET.encode(), {"token_algorithms": ("ES256",)}, "none of the algorithms ES256"),
        (public(rsa.generate_private_key(65_537, 1_024)), {}, "1024 bits"),
        (
            RSA_KEY.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
            {},
            "it must be in PEM",
        ),
        (ED_KEY.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH), {}, "it must be in PEM"),
        (b"Key of the issuer\n" + public(RSA_KEY), {}, "it must be in PEM"),
    ],
    ids=[f"case {number}" for number in range(13)],  # keys are made anew each time, and names must not be
)
def test_a_key_that_cannot_be_used_is_said_at_the_start(
    door_with: Callable[..., Authenticator], content: bytes, more: dict[str, Any], reason: str
) -> None:
    with pytest.raises(SecurityError) as raised:
        door_with(content, **more)
    assert reason in str(raised.value)
    assert SECRET not in str(raised.value)


# ---------------------------------------------------------------- links


def test_brokers_that_know_the_secret_know_each_other() -> None:
    b1, b2 = LinkGuard("b1", secret=SECRET.encode()), LinkGuard("b2", secret=SECRET.encode())
    said = b1.said_to("b2", (), 1_000.0)
    assert SECRET not in said
    answer = b2.check_dialler("b1", said, ELSEWHERE, (), 1_030.0)
    b1.check_answer("b2", said, answer)
    with pytest.raises(PeerFault, match="used before"):
        b2.check_dialler("b1", said, ELSEWHERE, (), 1_031.0)
    with pytest.raises(PeerFault, match="does not know the secret"):
        b1.check_answer("b2", b1.said_to("b2", (), 1_000.0), answer)  # of another greeting
    with pytest.raises(PeerFault, match="do the clocks"):
        b2.check_dialler("b1", b1.said_to("b2", (), 1_000.0), ELSEWHERE, (), 1_061.0)


def test_a_greeting_is_of_no_use_to_others() -> None:
    b1, b2, b3 = (LinkGuard(name, secret=SECRET.encode()) for name in ("b1", "b2", "b3"))
    said = b1.said_to("b2", (), 1_000.0)
    stranger = LinkGuard("b1", secret=b"another secret")
    cases = [
        (b3, "b1", said),
        (b2, "b3", said),
        (b2, "b1", stranger.said_to("b2", (), 1_000.0)),
        (b2, "b1", ""),
        (b2, "b1", "::" * 900),
        (b2, "b1", said.replace("1000.000", "1001.000")),
    ]
    for guard, claimed, greeting in cases:
        with pytest.raises(PeerFault, match="does not know the secret"):
            guard.check_dialler(claimed, greeting, "127.0.0.1", (), 1_000.0)
    with pytest.raises(PeerFault, match="does not know the secret"):
        b1.check_answer("b2", said, "forged")


def test_without_secret_and_certificates_brokers_link_only_on_one_machine() -> None:
    guard = LinkGuard("b1")
    assert guard.check_dialler("b2", "", "127.0.0.1", (), 0.0) == ""
    with pytest.raises(PeerFault, match="must show a certificate or know the secret"):
        guard.check_dialler("b2", "", ELSEWHERE, (), 0.0)


def test_a_certificate_must_name_its_broker() -> None:
    guard = LinkGuard("b1", needs_certificate=True)
    assert guard.check_dialler("b2", "", ELSEWHERE, ("host", "b2"), 0.0) == ""
    for names in ((), ("b3",)):
        with pytest.raises(PeerFault, match="it must name b2"):
            guard.check_dialler("b2", "", "127.0.0.1", names, 0.0)
        with pytest.raises(PeerFault, match="it must name b2"):
            guard.said_to("b2", names, 0.0)


def test_what_is_wrong_with_the_files_of_tls_is_said_at_the_start(tmp_path: Path) -> None:
    pem = tmp_path / "x.pem"
    pem.write_text("nothing")
    good: Any = str(pem)
    cases: list[tuple[Callable[[], Any], str]] = [
        (lambda: server_context(TlsSettings("no such file")), "No such file"),
        (lambda: server_context(TlsSettings(good, good)), "no certificate in PEM"),
        (lambda: server_context(TlsSettings(client_certificates="required")), "tls.certificate is missing"),
        (lambda: server_context(TlsSettings(), LinkSettings(tls=True)), "tls.certificate is missing"),
        (lambda: client_context(good), "no certificates in PEM"),
        (lambda: link_guard("b1", LinkSettings(tls=True), TlsSettings()), "links.tls needs"),
        (lambda: link_guard("b1", LinkSettings(secret=good), TlsSettings()), "32 or more"),
        (lambda: link_guard("b1", LinkSettings(secret="no such file"), TlsSettings()), "No such file"),
    ]
    for make, reason in cases:
        with pytest.raises(SecurityError, match=reason):
            make()
    assert server_context(TlsSettings()) is None


# ---------------------------------------------------------------- rates


def test_a_bucket_gives_no_more_than_its_burst_and_its_rate() -> None:
    bucket = TokenBucket(10, 5, 0.0)
    assert bucket.take(5, 0.0) == 0
    assert bucket.take(1, 0.0) == pytest.approx(0.1)
    assert bucket.take(0, 0.1) == pytest.approx(0, abs=1e-9)
    assert bucket.take(20, 100.0) == pytest.approx(1.5)
    assert bucket.take(0, 99.0) == pytest.approx(1.5)  # a clock that goes back gives nothing


def test_connections_of_a_host_are_counted_and_those_of_this_machine_are_not() -> None:
    hosts = HostConnections(2)
    assert [hosts.enter(ELSEWHERE) for _ in range(3)] == [True, True, False]
    assert hosts.enter("192.0.2.8")
    hosts.leave(ELSEWHERE)
    assert hosts.enter(ELSEWHERE)
    assert all(hosts.enter("127.0.0.1") for _ in range(10))
    for _ in range(5):
        hosts.leave(ELSEWHERE)
    assert ELSEWHERE not in hosts._counts


def test_failed_attempts_are_bounded_and_forgotten() -> None:
    attempts = FailedAttempts(entries_max=10)
    for n in range(100):
        attempts.failed(f"h{n}", "ann", float(n))
    assert len(attempts._failed) == 10
    waits = []
    for _ in range(12):
        attempts.failed("h", "ann", 200.0)
        waits.append(attempts.wait_s("h", "ann", 200.0))
    assert waits == [0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60]
    assert attempts.wait_s("h", "bob", 200.0) == 0
    assert attempts.wait_s("h", "ann", 261.0) == 0
    for n in range(50):
        attempts.failed("h", f"u{n}", 300.0)
    assert attempts.wait_s("h", "bob", 300.0) > 0
    assert attempts.wait_s("h", "bob", 1_000.0) == 0


def test_bounds_on_traffic_are_above_0() -> None:
    with pytest.raises(ValueError, match="connections_max is 0"):
        TrafficLimits(connections_max=0)
    assert TrafficLimits().messages_per_s == 0
