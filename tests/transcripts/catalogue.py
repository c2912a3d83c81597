"""Every script, by the name of its transcript."""

from collections.abc import Callable

from tests.transcripts import contexts, hostile, moving, recovery, routing, services
from tests.transcripts.network import Network

__all__ = ["SCRIPTS"]

SCRIPTS: dict[str, Callable[[], Network]] = {
    **moving.SCRIPTS,
    **routing.SCRIPTS,
    **recovery.SCRIPTS,
    **contexts.SCRIPTS,
    **services.SCRIPTS,
    **hostile.SCRIPTS,
}
