"""`godwit demo`: five brokers, a fleet of cars that roams over them, and one broker that is killed and returns."""

from typing import Annotated

from godwit.cli.signatures import Exit, Option, echo
from godwit.cli.terminal import Console
from godwit.errors import GodwitError

__all__ = ["demo"]


def demo(
    seconds: Annotated[float, Option(metavar="SECONDS", min=5.0, help="Length of the drive.")] = 45.0,
    seed: Annotated[int, Option(metavar="N", help="Seed of the random events.")] = 1,
    keep: Annotated[bool, Option("--keep", help="Keep the network running at the end, until Ctrl-C.")] = False,
    is_open: Annotated[
        bool, Option("--open", help="Open the map in a browser, and drive back and forth until Ctrl-C.")
    ] = False,
) -> None:
    """Run a demonstration: five brokers, and cars that roam. One broker is killed and restarts. All run on this
    machine.

    Half of the cars are plain MQTT clients. The map of the dashboard shows them; its address is printed.
    The last lines count published, delivered, lost and duplicate events.

    Example: godwit demo --open
    """
    import asyncio
    import webbrowser
    from importlib.util import find_spec

    if find_spec("paho") is None:
        raise GodwitError("the demonstration needs an MQTT client: pip install paho-mqtt")
    from godwit.cli.fleet.demo_run import run
    from godwit.cli.fleet.screen import Screen, account, show_account

    console = Console()
    with Screen(console) as screen:
        on_map = webbrowser.open if is_open else None
        try:
            fleet, verdict = asyncio.run(run(seconds, seed, screen.tick, keep=keep, on_map=on_map))
        except asyncio.CancelledError:  # by SIGTERM
            raise KeyboardInterrupt from None
    show_account(console, account(fleet, verdict))
    for each in verdict.wrong[:20]:
        echo(each, err=True)
    raise Exit(0 if verdict.is_clean else 1)
