"""Mobility: sessions that follow their clients from broker to broker, and devices without any fixed broker.

Pure machines, as all protocols here.
"""

from godwit.mobility.adhoc import AdHocNode
from godwit.mobility.device import AdHocConfig
from godwit.mobility.roaming import MobileBroker

__all__ = ["AdHocConfig", "AdHocNode", "MobileBroker"]
