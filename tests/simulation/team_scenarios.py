"""What happens to a team, drawn from a seed: what its users do, where their devices go, and what fails meanwhile.

A scenario is a list of steps, and nothing in it depends on who plays it: `simulated_team.py` plays it with machines on
virtual time, `tests/network/real_team.py` with processes. `team_laws.py` judges what both end with.
"""

from random import Random

import msgspec

__all__ = [
    "AddPrivate",
    "Ask",
    "Crash",
    "CutLink",
    "Describe",
    "Disturb",
    "Forge",
    "Kill",
    "Leave",
    "Move",
    "Rest",
    "Restart",
    "SetMember",
    "Step",
    "StoreVersion",
    "TeamScenario",
    "drawn",
]

USERS = ("ann", "bob", "ann", "bob", "cid", "eve")
"""By place, whose device it is. Ann owns a community; bob and cid are editors of it. Eve is in no community."""
ANN, BOB, OTHER_ANN, OTHER_BOB, CID, EVE = range(len(USERS))
MEMBERS = (ANN, BOB, OTHER_ANN, OTHER_BOB)
BOBS = (BOB, OTHER_BOB)
DOCUMENTS = 6
BROKERS = ("b1", "b2", "b3", "b4")
LINKS = (("b1", "b2"), ("b2", "b3"), ("b2", "b4"))
SIZES = (0, 1, 40_000, 3_000_000)  # of files: none, little, less than a chunk, several chunks


class _Step(msgspec.Struct, frozen=True, tag=True):
    """One thing that happens."""


# ------------------------------------------------------------ what users do


class Describe(_Step, frozen=True):
    """Set the title of a document of the community."""

    place: int
    document: int
    title: str


class StoreVersion(_Step, frozen=True):
    """Store a new version of a document of the community: a file with these bytes, drawn."""

    place: int
    document: int
    seed: int
    size: int


class AddPrivate(_Step, frozen=True):
    """Add a document to the community that only bob is in; `is_shown`: and show it to ann."""

    place: int
    title: str
    is_shown: bool


class Ask(_Step, frozen=True):
    """Search for reports."""

    place: int
    name: str


class SetMember(_Step, frozen=True):
    """Let cid be a member of the community, or no longer."""

    place: int
    is_member: bool


class Forge(_Step, frozen=True):
    """Eve sends a change of a document, signed and to which she has no right."""

    document: int


# ------------------------------------------------------------ where devices go, and what fails


class Move(_Step, frozen=True):
    """A device comes to a broker."""

    place: int
    broker: str


class Leave(_Step, frozen=True):
    """A device is out of reach."""

    place: int


class Kill(_Step, frozen=True):
    """The process of a device is killed, and another one begins with what is on the disk."""

    place: int


class CutLink(_Step, frozen=True):
    """Two brokers lose their connection."""

    link: int


class Disturb(_Step, frozen=True):
    """What goes between brokers is disturbed, until everything is mended."""

    loss: float
    duplicate: float


class Crash(_Step, frozen=True):
    """A broker is killed. It stays down until all are restarted."""

    broker: str
    keeps_disk: bool


class Restart(_Step, frozen=True):
    """All brokers that are down start again, and links are made again."""


class Rest(_Step, frozen=True):
    """Time goes by."""

    seconds: float


Step = (
    Describe
    | StoreVersion
    | AddPrivate
    | Ask
    | SetMember
    | Forge
    | Move
    | Leave
    | Kill
    | CutLink
    | Disturb
    | Crash
    | Restart
    | Rest
)


class TeamScenario(msgspec.Struct, frozen=True):
    """All that happens between the beginning and the end, which are the same for all scenarios."""

    seed: int
    family: str
    homes: tuple[str, ...]
    """By place, the first broker."""
    steps: tuple[Step, ...]


def drawn(seed: int, rounds: int) -> TeamScenario:
    """A scenario: in each round somebody does something, something fails or moves, and time goes by."""
    random = Random(seed)
    homes = tuple(random.choice(BROKERS) for _ in USERS)
    steps: list[Step] = []
    for number in range(rounds):
        steps += [_deed(random, number), _fault(random), Rest(random.random() * 5)]
    return TeamScenario(seed, "tree" if seed % 2 else "graph", homes, tuple(steps))


def _deed(random: Random, number: int) -> Step:
    place, document = random.randrange(len(USERS)), random.randrange(DOCUMENTS)
    match random.choice(["describe", "describe", "store", "private", "search", "member", "forge"]):
        case "describe":
            return Describe(place, document, f"report {number}")
        case "store":
            return StoreVersion(place, document, random.randrange(2**32), random.choice(SIZES))
        case "private":
            return AddPrivate(random.choice(BOBS), f"report {number}", random.random() < 0.5)
        case "search":
            return Ask(place, f"early {number}")
        case "member":
            return SetMember(random.choice((ANN, OTHER_ANN)), random.random() < 0.5)
        case _:
            return Forge(document)


def _fault(random: Random) -> Step:
    place, broker = random.randrange(len(USERS)), random.choice(BROKERS)
    match random.choice(["move", "move", "move", "leave", "kill", "cut", "disturb", "crash", "lose disk", "restart"]):
        case "move":
            return Move(place, broker)
        case "leave":
            return Leave(place)
        case "kill":
            return Kill(place)
        case "cut":
            return CutLink(random.randrange(len(LINKS)))
        case "disturb":
            return Disturb(0.2 * random.random(), 0.2 * random.random())
        case "crash":
            return Crash(broker, keeps_disk=True)
        case "lose disk":
            return Crash(broker, keeps_disk=False)
        case _:
            return Restart()
