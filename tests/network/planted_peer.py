"""`godwit` with a planted fault: a peer that shows everybody all that it has. The arguments are those of `godwit`."""

from typing import Any

from godwit.cli.main import app
from godwit.teamwork.access import Access
from godwit.teamwork.machine.governance import Role
from godwit.teamwork.machine.peer import Peer


def show_everything() -> None:
    access: Any = Access
    access.role = lambda self, user, scope: Role.READER
    peer: Any = Peer
    peer.readable_scopes = lambda self, user: list(self._store.scopes())


if __name__ == "__main__":
    show_everything()
    app(prog_name="godwit")
