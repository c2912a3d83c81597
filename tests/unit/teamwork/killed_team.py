"""A team without a broker that stores documents and messages, and says each when it is stored, until it is killed.

Argument: its folder.
"""

import asyncio
import json
import sys
from io import BytesIO
from pathlib import Path

from godwit.teamwork import open_team

NOBODY = "127.0.0.1:9"


async def main(folder: Path) -> None:
    async with open_team(folder, brokers=[NOBODY]) as team:
        scope = team.communities.create("Bridges")
        number = 0
        while True:
            number += 1
            text = f"report {number}"
            document = team.documents.add(scope, BytesIO(text.encode()), f"{number}.txt", {"keyword": [f"k{number}"]})
            message = team.messages.send(scope, text, attachments=[document.id])
            team.audit.show([(scope, document.id)], "bob", "test")
            print(json.dumps([scope, document.id, message, text]), flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
