"""The settings of simulated brokers for mobile publishers, made from a scenario.

*Rules.*
1. A perfect predictor is made from the itineraries of the run, which are known before it begins.
"""

from collections.abc import Mapping
from pathlib import Path

from godwit.mobility.predictors import PREDICTORS, Itineraries, NoisyPredictor, Predictor, model_of
from godwit.mobility.publisher_presence import PublisherConfig
from godwit.simulator.scenario.roaming_section import Roaming

__all__ = ["publisher_config"]

OWN_PREDICTORS = ("perfect", "model")


def publisher_config(
    roaming: Roaming, street: tuple[str, ...], visits: Mapping[str, tuple[str, ...]]
) -> PublisherConfig:
    """The settings of every broker: neighbours along the street, and a predictor. `visits`: the brokers of each
    client."""
    settings = roaming.publishers
    predictor: Predictor = Itineraries(visits)
    if settings.predictor not in OWN_PREDICTORS:
        predictor = PREDICTORS.part(settings.predictor)()
    elif settings.predictor == "model":
        predictor = model_of(Path(settings.model_file).read_text(encoding="utf-8"), settings.model_file)
    if settings.wrong_rate:
        predictor = NoisyPredictor(predictor, settings.wrong_rate, street)
    needs_neighbours = roaming.publisher_mode == "proxy"
    modes = (roaming.publisher_mode, roaming.subscriber_mode)
    return PublisherConfig(
        delay_s=settings.delay_s,
        prefetch_s=settings.prefetch_s,
        proxies=settings.proxies,
        nearest=_nearest(street, settings.proxies) if needs_neighbours else {},
        predictor=predictor if any("prefetching" in mode or mode == "presubscribe" for mode in modes) else None,
    )


def _nearest(street: tuple[str, ...], count: int) -> dict[str, tuple[str, ...]]:
    """By broker, the brokers nearest to it along the street, itself first. [pubmob §4.1]"""
    found: dict[str, tuple[str, ...]] = {}
    for at, broker in enumerate(street):
        around = range(max(0, at - count), min(len(street), at + count + 1))
        found[broker] = tuple(street[other] for other in sorted(around, key=lambda other: (abs(other - at), other)))
    return found
