"""The configuration files of a plan: one for each broker, for `godwit serve`.

*Rules.*
1. Every file is checked by the code that reads it when a broker starts, before any is written.
2. Brokers without an address in the file of positions are placed on this machine, each with different ports, so that
   the plan can be tried at once.
"""

import csv
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from godwit.errors import BadValue
from godwit.planning.assessment import BrokerLoad
from godwit.planning.broker_links import PlannedLink
from godwit.runtime.config_sections import LimitsSection
from godwit.runtime.configuration import load

__all__ = ["addresses_of", "configuration_files"]

PORT_FIRST, PORTS_EACH = 7100, 10
HEADROOM = 4  # sessions per simultaneous client of the trace, because sessions outlive connections
BROKERS_MAX = (65_536 - PORT_FIRST) // PORTS_EACH


def addresses_of(file: str) -> dict[str, str]:
    """By broker, the address in the column `address` of a file of positions, where there is one."""
    with Path(file).open(encoding="utf-8-sig", newline="") as stream:
        rows = list(csv.DictReader(stream))
    return {row["broker"].strip(): said for row in rows if (said := (row.get("address") or "").strip())}


def configuration_files(
    brokers: Sequence[BrokerLoad], links: Sequence[PlannedLink], addresses: Mapping[str, str], mode: str, reduction: str
) -> dict[str, str]:
    """By file name, the text of each broker's configuration. GodwitError if one of them is invalid. (rule 1)"""
    if len(brokers) > BROKERS_MAX and len(addresses) < len(brokers):
        raise BadValue(f"{len(brokers):,} brokers: without addresses of their own {BROKERS_MAX:,} are allowed")
    ports = {each.broker: PORT_FIRST + PORTS_EACH * number for number, each in enumerate(brokers)}
    reached = {broker: addresses.get(broker, f"127.0.0.1:{port}") for broker, port in ports.items()}
    neighbours: dict[str, list[str]] = {each.broker: [] for each in brokers}
    for link in links:
        neighbours[link.a].append(link.b)
        neighbours[link.b].append(link.a)
    found = {}
    for each in brokers:
        name = each.broker
        told = {peer: reached[peer] for peer in neighbours[name]}
        listen = _listen(addresses.get(name), ports[name])
        found[f"{name}.toml"] = _text(each, told, listen, mode, reduction)
    _check(found)
    return found


def _listen(address: str | None, port: int) -> dict[str, str]:
    if address is None:
        return {"native": f"127.0.0.1:{port}", "mqtt": f"127.0.0.1:{port + 1}", "http": f"127.0.0.1:{port + 2}"}
    return {"native": f"0.0.0.0:{address.rpartition(':')[2]}"}


def _text(load: BrokerLoad, neighbours: Mapping[str, str], listen: Mapping[str, str], mode: str, reduction: str) -> str:
    sessions = max(LimitsSection().sessions_max, HEADROOM * load.clients_peak)
    lines = [
        '# Written by "godwit plan". Check it with "godwit check-config", run it with "godwit serve".',
        f"# Area: {load.radius_m:,.0f} m around {load.lat:.5f}, {load.lon:.5f} (latitude, longitude).",
        f"# Predicted: {load.clients_peak:,} clients at most, who publish {load.published_per_s:,.1f} events a second.",
        f'# Clients connect with mode = "{mode}"; MQTT clients and browsers always move in mode "named".',
        "# Before it can be reached from elsewhere: docs/guides/secure.md (links.secret, security.users, tls).",
        "",
        "[broker]",
        f"name = {_quoted(load.broker)}",
        'family = "tree"',
        f"reduction = {_quoted(reduction)}",
        "",
        "[listen]",
        *(f"{key} = {_quoted(value)}" for key, value in listen.items()),
        "",
        "[limits]",
        f"sessions_max = {sessions}",
    ]
    if neighbours:
        lines += ["", "[neighbours]", *(f"{_quoted(peer)} = {_quoted(at)}" for peer, at in neighbours.items())]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A text in TOML: JSON strings are valid TOML."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _check(files: Mapping[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for number, text in enumerate(files.values()):
            file = Path(folder) / f"broker-{number}.toml"
            file.write_text(text, encoding="utf-8")
            load(file, {}, ())
