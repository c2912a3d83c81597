"""A peer that makes changes and says each number when it is on the disk, until it is killed. Argument: its folder.

With `KILLED_PEER_FORGETS` in its environment, it speaks before the transaction has ended, and waits: a planted fault.
"""

import os
import sys
from pathlib import Path

from godwit.teamwork.machine.scope_log import ScopeLog
from godwit.teamwork.repository import Repository
from tests.unit.teamwork.machine.team_of_peers import Keys

SCOPE = "community/ann.1"


def main(folder: Path) -> None:
    repository = Repository(folder)
    log = ScopeLog(SCOPE, repository, Keys("d"))
    while True:
        with repository.transaction():
            change = log.make("d", "ann", "artefact/1", {"title": "x"}, 0.0)
            log.add(change)
            repository.outbox.add(b"%d" % change.number)
            if "KILLED_PEER_FORGETS" in os.environ:
                print(change.number, flush=True)
                sys.stdin.readline()
        print(change.number, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
