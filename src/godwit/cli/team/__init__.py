"""`godwit team`: people, communities, documents, search, messages and meetings of a team. A module for each subject."""

import typer

from godwit.cli.team import (
    team_communities,
    team_demo,
    team_documents,
    team_founding,
    team_grants,
    team_meetings,
    team_messages,
    team_notifications,
    team_search,
    team_serving,
    team_users,
)

__all__ = ["app"]

HELP = """\
Work together: share documents, search, talk and meet, also offline.

Each device has a folder. Found a team, and keep its peer running:

    godwit team init ann-laptop --user ann

    godwit team serve ann-laptop

Invite others; what this prints lets bob's device join:

    godwit team invite bob --folder ann-laptop

Commands act on the folder named by --folder or GODWIT_TEAM_FOLDER. They work whether its peer runs or not.
"""

app = typer.Typer(help=HELP, no_args_is_help=True, short_help="Share documents, search, talk and meet, also offline.")


@app.callback()
def _team() -> None:
    pass


app.command("init")(team_founding.init)
app.command("invite")(team_founding.invite)
app.command("join")(team_founding.join)
app.command("serve")(team_serving.serve)
app.command("status")(team_serving.status)
app.command("presence")(team_serving.presence)
app.command("audit")(team_serving.audit)
app.add_typer(team_users.app, name="user")
app.add_typer(team_communities.app, name="community")
app.command("add")(team_documents.add)
app.command("get")(team_documents.get)
app.add_typer(team_documents.app, name="document")
app.add_typer(team_grants.app, name="right")
app.command("search")(team_search.search)
app.add_typer(team_messages.app, name="message")
app.add_typer(team_meetings.app, name="meeting")
app.command("subscribe")(team_notifications.subscribe)
app.command("notifications")(team_notifications.notifications)
app.command("demo")(team_demo.demo)
