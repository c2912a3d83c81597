"""Checks of packets and confirmations with matching at every hop (`hop_stream.py`)."""

from typing import Any

from godwit.broker.bloom import check_bloom
from godwit.broker.message_checks import shown
from godwit.broker.messages import Publish
from godwit.broker.packet_checks import Further, check_carried, is_number
from godwit.broker.stream_messages import ConfirmStream, HopPacket, SentAgain, StreamConfirmed, ViewReached
from godwit.errors import PeerFault

__all__ = ["check_hop_packet", "stream_checks"]


def check_hop_packet(packet: HopPacket, targets_max: int, further: Further) -> None:
    """`PeerFault` when no honest broker sends this packet."""
    numbers = (packet.incarnation, packet.number)
    if not packet.source or not all(map(is_number, numbers)) or not packet.view >= 0:
        raise PeerFault(f"a HopPacket of {packet.source!r} numbered {numbers!r}")
    if packet.targets is None:
        if type(packet.message) is not Publish:
            raise PeerFault(f"a HopPacket of {packet.source} with a {type(packet.message).__name__} and no receiver")
    elif not 0 < len(packet.targets) <= targets_max or packet.source in packet.targets:
        raise PeerFault(f"a HopPacket of {packet.source} with no targets, too many, or itself among them")
    if packet.bloom is not None:
        check_bloom(packet.bloom)
    _check_streamed(packet.source, packet.message, further)


def _check_streamed(source: str, message: Any, further: Further) -> None:
    if type(message) is not Publish and type(message) not in further:
        raise PeerFault(f"{source} sends a {type(message).__name__} hop by hop: allowed are events")
    check_carried(source, message, further)


def stream_checks(further: Further) -> Further:
    """How what packets carry of a stream is checked; `further`: what else packets carry for the broker."""

    def check_sent_again(message: SentAgain) -> None:
        if not is_number(message.incarnation) or not is_number(message.number):
            raise PeerFault(f"SentAgain of a HopPacket numbered {shown(message.number)}")
        _check_streamed("a broker", message.message, further)

    def check_numbers(message: ConfirmStream | StreamConfirmed) -> None:
        if not is_number(message.incarnation) or not is_number(message.number):
            raise PeerFault(f"a {type(message).__name__} up to {shown(message.number)}")

    def check_nothing(_: Any) -> None:
        """Any value is allowed."""

    return {
        ViewReached: check_nothing,
        SentAgain: check_sent_again,
        ConfirmStream: check_numbers,
        StreamConfirmed: check_numbers,
    }
