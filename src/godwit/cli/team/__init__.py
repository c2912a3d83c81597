"""`godwit team`: people, communities, documents, search, messages and meetings of a team. A module for each subject."""

from godwit.cli.signatures import Group
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

app = Group(help=HELP, short_help="Share documents, search, talk and meet, also offline.")


app.add("init")(team_founding.init)
app.add("invite")(team_founding.invite)
app.add("join")(team_founding.join)
app.add("serve")(team_serving.serve)
app.add("status")(team_serving.status)
app.add("presence")(team_serving.presence)
app.add("audit")(team_serving.audit)
app.add_command(team_users.app, name="user")
app.add_command(team_communities.app, name="community")
app.add("add")(team_documents.add)
app.add("get")(team_documents.get)
app.add_command(team_documents.app, name="document")
app.add_command(team_grants.app, name="right")
app.add("search")(team_search.search)
app.add_command(team_messages.app, name="message")
app.add_command(team_meetings.app, name="meeting")
app.add("subscribe")(team_notifications.subscribe)
app.add("notifications")(team_notifications.notifications)
app.add("demo")(team_demo.demo)
