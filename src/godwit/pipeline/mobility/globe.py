"""Distances and directions on the globe, for whole arrays of positions."""

from typing import Any

import numpy as np

from godwit.filters.regions import EARTH_RADIUS_M

__all__ = ["DEGREE_M", "Floats", "distances_m"]

Floats = np.ndarray[Any, np.dtype[np.float64]]
"""An array of floats."""

DEGREE_M = float(np.radians(EARTH_RADIUS_M))
"""Metres in a degree of a meridian."""


def distances_m(lons: Floats, lats: Floats, to_lons: Floats, to_lats: Floats) -> Floats:
    """The great-circle distance of each pair, equal to `filters.regions.distance_m`."""
    phi, to_phi = np.radians(lats), np.radians(to_lats)
    half_dphi, half_dlambda = (to_phi - phi) / 2, np.radians(to_lons - lons) / 2
    h = np.sin(half_dphi) ** 2 + np.cos(phi) * np.cos(to_phi) * np.sin(half_dlambda) ** 2
    found: Floats = 2 * EARTH_RADIUS_M * np.arcsin(np.minimum(1.0, np.sqrt(h)))
    return found
