"""Teamwork on the move: people, communities, documents, search, messages and notification. [motion §1, §2]

`machine` holds what a peer decides, without a clock, a disk or a socket. Everything else here is its driver. Programs
use `new_team`, `join_team` and `open_team`; see docs/reference/teamwork.md. Nothing is imported until it is asked for:
`machine` needs none of the libraries that the rest does.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from godwit.teamwork.access import Grant
    from godwit.teamwork.content_files import Limits
    from godwit.teamwork.documents import Document, Version
    from godwit.teamwork.machine.governance import Role
    from godwit.teamwork.machine.notification_rules import Channel, UserSubscription
    from godwit.teamwork.notification_channels import MailServer
    from godwit.teamwork.searching import Searching, SearchProgress, SearchResult
    from godwit.teamwork.team import Status, Team, open_team
    from godwit.teamwork.team_files import FileAddress
    from godwit.teamwork.team_folder import join_team, new_team

__all__ = [
    "Channel",
    "Document",
    "FileAddress",
    "Grant",
    "Limits",
    "MailServer",
    "Role",
    "SearchProgress",
    "SearchResult",
    "Searching",
    "Status",
    "Team",
    "UserSubscription",
    "Version",
    "join_team",
    "new_team",
    "open_team",
]

_MODULES = {
    "Channel": "machine.notification_rules",
    "Document": "documents",
    "FileAddress": "team_files",
    "Grant": "access",
    "Limits": "content_files",
    "MailServer": "notification_channels",
    "Role": "machine.governance",
    "SearchProgress": "searching",
    "SearchResult": "searching",
    "Searching": "searching",
    "Status": "team",
    "Team": "team",
    "UserSubscription": "machine.notification_rules",
    "Version": "documents",
    "join_team": "team_folder",
    "new_team": "team_folder",
    "open_team": "team",
}  # where each thing is that is offered here


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'godwit.teamwork' has no attribute {name!r}")
    return getattr(import_module(f"godwit.teamwork.{_MODULES[name]}"), name)
