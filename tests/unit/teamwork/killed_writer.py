"""Writes chunks of a draft and says the number of each when it counts, until it is killed. Argument: the folder."""

import sys
from pathlib import Path

from godwit.teamwork.content_files import ContentFiles
from godwit.teamwork.manifests import CHUNK_BYTES

KEY = "upload 1"


def chunk(number: int) -> bytes:
    """What is in a chunk: its number, again and again."""
    return number.to_bytes(8, "big") * (CHUNK_BYTES // 8)


def main(folder: Path) -> None:
    draft = ContentFiles(folder).draft(KEY)
    while True:
        [number] = draft.missing()
        draft.put(number, chunk(number))
        print(number, flush=True)
        if number >= 5:
            sys.stdin.readline()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
