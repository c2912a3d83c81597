"""Scripts: lost frames, broken links, crashes with and without the disk, other settings, sessions that expire."""

from collections.abc import Callable
from functools import partial

from godwit.broker.effects import Reconfigured, Restarted, TailLost
from godwit.broker.limits import Limits
from godwit.broker.links import LinkConfig
from godwit.mobility.publisher_presence import PublisherConfig, PublisherReconfigured, PublisherSettings
from tests.transcripts.network import Network

LINE = "b1-b2 b2-b3"
RING = "b1-b2 b2-b3 b3-b1"
FAMILIES = {"tree": LINE, "graph": RING}


def _two_clients(net: Network) -> None:
    net.run(0.5)
    net.come("P", "b3")
    net.come("C", "b1")
    net.subscribe("C")
    net.run(0.5)
    net.publish("P", 1)
    net.run(0.3)


def lossy_link(family: str) -> Network:
    """Frames get lost: first one of several, then all, then a greeting; all is sent again."""
    net = Network(FAMILIES[family], family=family, link=LinkConfig())
    _two_clients(net)
    source = "b2" if family == "tree" else "b3"
    net.lose(source, "b1", 1)
    net.publish("P", 2, 3)
    net.run(1.0)
    net.lose(source, "b1", 5)
    net.publish("P", 4)
    net.run(20.0)
    net.cut(source, "b1")
    net.lose("b1", source, 1)
    net.publish("P", 5)
    net.run(0.5)
    net.join("b1", source)
    net.run(5.0)
    return net


def full_window() -> Network:
    """More waits for a link than may be under way, and more than has room."""
    net = Network("b1-b2", link=LinkConfig(window=2, outbox_max=4))
    net.run(0.5)
    net.come("P", "b2")
    net.come("C", "b1")
    net.subscribe("C")
    net.run(0.5)
    net.publish("P", *range(8))
    net.run(1.0)
    net.cut("b1", "b2")
    net.publish("P", *range(8))
    net.run(0.5)
    net.join("b1", "b2")
    net.run(1.0)
    return net


def crash(name: str, family: str, *, keeps_disk: bool) -> Network:
    """A broker crashes while events are under way and its client is connected."""
    net = Network(FAMILIES[family], family=family, link=LinkConfig())
    _two_clients(net)
    net.publish("P", 2)
    net.run(0.015)
    net.crash(name)
    net.publish("P", 3)
    net.run(1.0)
    net.subscribe("C", "y = 1", "G")
    net.restart(name, keeps_disk=keeps_disk)
    net.run(1.0)
    net.come("C", "b1")
    net.come("P", "b3")
    net.run(2.0)
    net.publish("P", 4, {"y": 1})
    net.run(1.0)
    if family == "graph":
        net.run(70.0)
        net.publish("P", 5)
        net.run(1.0)
    return net


def lost_tail(family: str, *, is_told: bool) -> Network:
    """The disk of an inner broker loses its last inputs, and says so, or a neighbour knows more."""
    net = Network(FAMILIES[family], family=family, link=LinkConfig())
    _two_clients(net)
    net.publish("P", 2)
    net.publish("P", 3)
    net.run(20.0)
    net.crash("b2")
    net.publish("P", 4)
    net.lose_tail("b2", 12)
    net.restart("b2")
    net.give("b2", Restarted())
    if is_told:
        net.give("b2", TailLost(50_000, 1.0))
    net.run(0.5)
    for peer in ("b1", "b3"):  # whom it has let go
        net.join("b2", peer)
    net.run(2.0)
    net.publish("P", 5)
    net.run(1.0)
    return net


def crash_while_relocating() -> Network:
    """The new broker crashes while the session is on its way to it, and goes on from its journal."""
    net = Network(LINE)
    net.latency["b1", "b2"] = 0.1
    _two_clients(net)
    net.run(1.0)
    net.come("C", "b2")
    net.run(0.05)
    net.crash("b2")
    net.publish("P", 2)
    net.run(1.0)
    net.restart("b2")
    net.run(1.0)
    net.come("C", "b2")
    net.run(15.0)
    return net


def expiry() -> Network:
    """Sessions of clients that are away end after their time; events expire; there is no room for more sessions."""
    net = Network(LINE, limits=Limits(session_expiry_s=2.0, sessions_max=2, subscriptions_max=2, filter_literals_max=3))
    _two_clients(net)
    net.come("D", "b1")
    net.subscribe("D", "x > 1")
    net.come("E", "b1")
    net.run(0.5)
    net.subscribe("C", "x = 7", "two")
    net.subscribe("C", "x = 8", "three")
    net.subscribe("D", "a = 1 AND b = 2 AND c = 3 AND d = 4", "big")
    net.run(0.5)
    net.do("D", "lingers for 1 s", lambda machine, now: machine.set_session_expiry(1.0, now))
    net.run(0.2)
    net.go("C")
    net.go("D")
    net.publish("P", 2)
    net.run(5.0)
    net.come("C", "b1")
    net.run(0.5)
    net.publish("P", 3)
    net.run(0.5)
    return net


def reconfigured(family: str) -> Network:
    """A broker gets another neighbour and other bounds, then other settings for publishers that move."""
    net = Network("b1-b2", apart="b3", family=family, moving=PublisherConfig(delay_s=1.0))
    net.run(0.5)
    net.come("C", "b1")
    net.subscribe("C")
    net.run(0.5)
    limits = Limits(subscriptions_max=1)
    net.give("b2", Reconfigured({"b1": 1.0, "b3": 2.0}, limits))
    net.give("b3", Reconfigured({"b2": 2.0}, limits))
    net.join("b2", "b3")
    net.run(1.0)
    net.come("P", "b3", "delayed")
    net.advertise("P")
    net.run(0.5)
    net.publish("P", 1)
    net.subscribe("P", "x = 1", "one")
    net.subscribe("P", "x = 2", "two")
    net.run(0.5)
    settings = PublisherSettings(delay_s=3.0, proxies={"b3": ("b2",)}, model='{"transitions": {"b3": {"b2": 1}}}')
    net.give("b3", PublisherReconfigured({"b2": 1.5}, limits, settings))
    net.run(0.5)
    net.go("P")
    net.run(4.0)
    net.come("Q", "b3", "prefetching")
    net.run(0.5)
    net.go("Q")
    net.run(1.0)
    net.come("R", "b3", "proxy")
    net.run(1.0)
    return net


SCRIPTS: dict[str, Callable[[], Network]] = {
    **{f"recovery_lossy_link_{family}": partial(lossy_link, family) for family in FAMILIES},
    "recovery_full_window": full_window,
    **{
        f"recovery_crash_{what}_{family}": partial(crash, name, family, keeps_disk=True)
        for what, name in (("border", "b1"), ("inner", "b2"))
        for family in FAMILIES
    },
    **{
        f"recovery_lost_disk_{what}_{family}": partial(crash, name, family, keeps_disk=False)
        for what, name in (("border", "b1"), ("inner", "b2"))
        for family in FAMILIES
    },
    **{f"recovery_lost_tail_told_{family}": partial(lost_tail, family, is_told=True) for family in FAMILIES},
    **{f"recovery_lost_tail_found_{family}": partial(lost_tail, family, is_told=False) for family in FAMILIES},
    "recovery_crash_while_relocating": crash_while_relocating,
    "recovery_expiry": expiry,
    **{f"recovery_reconfigured_{family}": partial(reconfigured, family) for family in FAMILIES},
}
