"""Write the user file from the add-on's options, then become the broker."""

import json
import os
import subprocess
import sys
from pathlib import Path

__all__ = ["prepare"]


def prepare(data: Path) -> list[str]:
    """Write the user file again from `options.json`; return the arguments of `godwit` that run the broker."""
    options = json.loads((data / "options.json").read_text(encoding="utf-8"))
    users = data / "users.toml"
    made = data / "users.new.toml"
    made.unlink(missing_ok=True)
    made.touch(mode=0o600)
    for user in options["users"]:
        words = ["godwit", "user", "add", user["name"], "--file", str(made), "--publish", "*", "--subscribe", "*"]
        if user.get("admin"):
            words.append("--admin")
        subprocess.run(words, input=user["password"] + "\n", text=True, check=True, stdout=sys.stderr)
    made.replace(users)
    return ["serve", str(Path(__file__).with_name("broker.toml")), "--log-level", options["log_level"]]


if __name__ == "__main__":
    os.execvp("godwit", ["godwit", *prepare(Path("/data"))])
