"""`godwit serve`, with less patience than a network needs: silence is noticed and neighbours are dialled sooner."""

from godwit.cli.main import app
from godwit.runtime import node, tcp

SNAPSHOT_BYTES = 200_000  # so that snapshots are written in each round


def main() -> None:
    tcp.BEAT_S, tcp.SILENCE_S, tcp.INTRO_S, tcp.REDIAL_MAX_S = 0.5, 4.0, 4.0, 0.5
    node.SNAPSHOT_BYTES = SNAPSHOT_BYTES
    app(prog_name="godwit")


if __name__ == "__main__":
    main()
