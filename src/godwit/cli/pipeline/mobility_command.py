"""`godwit pipeline mobility`: positions of clients become a movement graph, a model of where they go next, and more."""

import time
from pathlib import Path
from typing import Annotated

from godwit.cli.pipeline.spark_runner import Debug, Master, one_line_errors, session, show_summary, tell
from godwit.cli.signatures import Argument, Option
from godwit.errors import PipelineError

__all__ = ["mobility"]


def mobility(
    fixes: Annotated[
        list[str],
        Argument(
            metavar="FIXES",
            help="Tables of fixes, CSV files with time, id, lon and lat, cabspotting's text, or folders of these.",
        ),
    ],
    out: Annotated[Path, Option(metavar="DIR", help="Folder for the results.")],
    cells: Annotated[str, Option(metavar="KIND", help="Kind of place: h3:8, or grid:0.01 in degrees.")] = "h3:8",
    brokers: Annotated[
        str | None,
        Option(metavar="FILE", help="Broker placement to evaluate: CSV with broker, lon, lat and optionally radius_m."),
    ] = None,
    radius: Annotated[float | None, Option(metavar="METRES", help="Range of brokers without radius_m.")] = None,
    speed_max: Annotated[
        float,
        Option(metavar="KMH", help="Highest plausible speed; positions that imply a higher one are dropped."),
    ] = 200.0,
    gap: Annotated[float, Option(metavar="SECONDS", help="Longest gap between two positions of one trip.")] = 300.0,
    stay_radius: Annotated[float, Option(metavar="METRES", help="Radius of a stay point.")] = 200.0,
    stay: Annotated[float, Option(metavar="SECONDS", help="Shortest duration of a stay point.")] = 1_200.0,
    steps_min: Annotated[
        int, Option(metavar="NUMBER", help="Least number of observations for an edge of the movement graph.")
    ] = 3,
    proxy_share: Annotated[
        float, Option(metavar="SHARE", help="Share of a client's time that its proxy set must cover.")
    ] = 0.9,
    master: Master = "local[*]",
    debug: Debug = False,
) -> None:
    """Mine the movements of clients.

    Writes a movement graph, a model of the next place, dwell times, proxy sets and their tables to a folder, and
    reports how well the model predicts the last 30 % of each client's steps from the first 70 %, compared with a
    first-order model.

    Example: godwit pipeline mobility cabs/ --out mined --brokers masts.csv --radius 800
    """
    began = time.perf_counter()
    with one_line_errors(debug):
        from godwit.pipeline.mobility.cells import brokers_of, cells_of
        from godwit.pipeline.mobility.cleaning import CleaningOptions
        from godwit.pipeline.mobility.fix_sources import sorted_out
        from godwit.pipeline.mobility.mining import MiningSettings, check_out, mine
        from godwit.pipeline.mobility.staypoints import StayOptions

        if radius is not None and brokers is None:
            raise PipelineError("--radius says how far the brokers of a placement reach: it needs --brokers FILE")
        check_out(out)
        sorted_out(fixes)  # wrong options and files are reported before Spark starts
        kind = cells_of(cells)
        settings = MiningSettings(
            cells=kind,
            brokers=None if brokers is None else brokers_of(brokers, radius, kind),
            cleaning=CleaningOptions(speed_max, gap),
            staying=StayOptions(stay_radius, stay),
            steps_min=steps_min,
            proxy_share=proxy_share,
        )
    with session(master, "mobility", debug) as spark:
        started = time.perf_counter()
        summary = mine(spark, fixes, out, settings, tell)
    ended = time.perf_counter()
    summary |= {"seconds": round(ended - started, 1), "seconds_to_start": round(started - began, 1), "out": str(out)}
    show_summary("mobility", summary)
