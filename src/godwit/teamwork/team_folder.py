"""The folder of a peer: its user, its team, and how it is created by an invitation.

*Theory.* A folder has a key file of its device (`device.json`) and a file that names team, user and brokers
(`team.json`). A team is founded by one user: its name ends in a hash of the founder's key, so nobody can make another
team of that name. Others come in by an *invitation*: a text with the name of the team, the brokers, and the keys of a
device that an owner has made for the new user. The owner gains no power by making these keys: owners name the devices
of users anyway.

*Rules.*
1. An invitation is a secret: the device that it describes acts as the invited user. It is used once. An owner ends a
   device whose invitation went astray (`People.end_device`).
2. A folder belongs permanently to one device of one user. `new_team` and `join_team` refuse one that is in use.
"""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from pathlib import Path

import msgspec

from godwit.errors import RepositoryError, SecurityError
from godwit.files import write_whole
from godwit.teamwork.device_keys import DeviceKeys, team_scope
from godwit.teamwork.names import check_name

__all__ = ["FILE", "TeamFile", "invitation_text", "join_team", "new_team", "read_team_folder"]

FORMAT, VERSION = "godwit team", 1
INVITATION = "godwit-team-1."
FILE, KEYS = "team.json", "device.json"
TEXT_CHARS_MAX = 10_000


class TeamFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `team.json` says."""

    format: str
    version: int
    team: str
    user: str
    brokers: tuple[str, ...] = ()


class _Invitation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    team: str
    user: str
    brokers: tuple[str, ...]
    device: bytes
    """The key file."""


def new_team(folder: Path | str, user: str, *, device: str = "device", brokers: Sequence[str] = ()) -> TeamFile:
    """Found a team: its founder, and only owner so far, is `user`. `device`: a label, to which digits are added."""
    check_name("user", user)
    check_name("device", device)
    keys = DeviceKeys.made(device)
    return _written(
        Path(folder).expanduser(), keys, TeamFile(FORMAT, VERSION, team_scope(user, keys), user, tuple(brokers))
    )


def join_team(folder: Path | str, invitation: str) -> TeamFile:
    """Make a folder for the device that an invitation describes."""
    said = _read_invitation(invitation)
    keys = DeviceKeys.from_bytes(said.device, "the invitation")
    return _written(Path(folder).expanduser(), keys, TeamFile(FORMAT, VERSION, said.team, said.user, said.brokers))


def invitation_text(team: str, user: str, keys: DeviceKeys, brokers: Sequence[str]) -> str:
    """An invitation for a device with these keys. (rule 1)"""
    said = _Invitation(team, user, tuple(brokers), keys.to_bytes())
    return INVITATION + urlsafe_b64encode(msgspec.msgpack.encode(said)).decode().rstrip("=")


def _read_invitation(text: str) -> _Invitation:
    text = "".join(text.split())  # mail programs break long lines
    if not text.startswith(INVITATION) or len(text) > TEXT_CHARS_MAX:
        raise SecurityError(f"that is not an invitation to a team: it begins with {INVITATION!r} and is one text")
    body = text.removeprefix(INVITATION)
    try:
        return msgspec.msgpack.decode(urlsafe_b64decode(body + "=" * (-len(body) % 4)), type=_Invitation)
    except (msgspec.MsgspecError, binascii.Error, ValueError) as error:
        raise SecurityError(f"the invitation is incomplete: copy all of it ({error})") from error


def read_team_folder(folder: Path) -> tuple[TeamFile, DeviceKeys]:
    """Team and keys of a folder."""
    path = folder / FILE
    try:
        said = msgspec.json.decode(path.read_bytes(), type=TeamFile)
    except FileNotFoundError:
        raise RepositoryError(
            f"there is no team in {folder}: found one with `godwit team init`, or join one with `godwit team join`"
        ) from None
    except OSError as error:
        raise RepositoryError(f"{path} cannot be read: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise RepositoryError(f"{path} does not name a team: {error}") from error
    if (said.format, said.version) != (FORMAT, VERSION):
        raise RepositoryError(
            f"{path} is {said.format!r}, version {said.version}; this program reads {FORMAT!r}, version {VERSION}"
        )
    return said, DeviceKeys.load(folder / KEYS)


def _written(folder: Path, keys: DeviceKeys, said: TeamFile) -> TeamFile:
    """Write both files; `team.json` last, so that a folder with it is whole. (rule 2)"""
    path = folder / FILE
    if path.exists():
        raise RepositoryError(f"{folder} belongs to a device of a team already: choose another folder")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / KEYS).unlink(missing_ok=True)  # of an attempt that was interrupted
        keys.save(folder / KEYS)
        write_whole(path, msgspec.json.format(msgspec.json.encode(said)) + b"\n")
    except OSError as error:
        raise RepositoryError(f"{folder} cannot be used: {error.strerror or error}") from error
    return said
