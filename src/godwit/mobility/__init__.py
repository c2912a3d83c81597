"""Mobility: sessions that follow their clients from broker to broker. Pure machines, as all protocols here."""

from godwit.mobility.roaming import MobileBroker

__all__ = ["MobileBroker"]
