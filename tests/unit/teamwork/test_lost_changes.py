"""Changes that lost against others: their authors are told, once, whatever was changed."""

from io import BytesIO
from pathlib import Path

from godwit.teamwork import Role, Team
from godwit.teamwork.machine.notification_rules import LOST_CHANGES, REMINDERS
from godwit.teamwork.notification_queue import NotificationQueue
from godwit.teamwork.record_history import HistoryEntry
from tests.unit.teamwork.notifier_scene import Scene
from tests.unit.teamwork.notifier_scene import play as notified
from tests.unit.teamwork.open_teams import OpenTeams, play


def told(team: Team) -> list[str]:
    return [each.notification.title for each in team.subscriptions.notifications()]


def lost(history: list[HistoryEntry]) -> list[tuple[str, tuple[str, ...]]]:
    return [(each.user, each.lost) for each in history if each.lost]


def test_users_whose_changes_of_profile_and_community_lost_are_told_and_nobody_else(tmp_path: Path) -> None:
    async def scene(teams: OpenTeams) -> None:
        async with teams.together() as (ann, bob, cid):
            community = ann.communities.create("Bridges")
            ann.communities.add(community, "bob", Role.OWNER)
            await teams.later()
            for pair in teams.net.links:
                teams.net.cut(*pair)  # each works alone from here on
            ann.people.change_profile({"skill": ["steel"], "place": ["Bern"]}, "cid")
            cid.people.change_profile({"skill": ["law"]})
            ann.communities.change(community, description="of steel")
            bob.communities.change(community, description="of wood")
            await teams.later()
            assert told(ann) == told(bob) == told(cid) == []
            for pair in teams.net.links:
                teams.net.join(*pair)
            await teams.later()
            skill = ann.people.get("cid").profile["skill"]
            assert skill == cid.people.get("cid").profile["skill"]
            description = ann.communities.get(community).description
            assert description == bob.communities.get(community).description
            wrote_skill = {"ann": ["steel"], "cid": ["law"]}
            wrote_text = {"ann": "of steel", "bob": "of wood"}
            [loser] = [user for user, said in wrote_skill.items() if said != skill]
            [other] = [user for user, said in wrote_text.items() if said != description]
            opened = {"ann": ann, "bob": bob, "cid": cid}
            for user, team in opened.items():
                profile = [text for text in told(team) if "the profile of cid (skill) was replaced" in text]
                settings = [text for text in told(team) if "the settings of Bridges (description)" in text]
                assert len(profile) == (user == loser), (user, told(team))
                assert len(settings) == (user == other), (user, told(team))
                assert sorted(team.status().lost) == sorted(profile + settings)
            assert lost(opened[loser].people.history("cid")) == [(loser, ("skill",))]
            assert lost(ann.communities.history(community)) == [(other, ("description",))]
            subscriptions = opened[loser].subscriptions
            subscriptions.mark([each.id for each in subscriptions.notifications()])
            assert opened[loser].status().lost == ()
        async with teams.open(loser) as team:
            await teams.later()
            assert len([text for text in told(team) if "profile" in text]) == 1  # not told again

    play(tmp_path, scene)


def test_a_change_that_is_refused_now_is_told_to_its_author_once(tmp_path: Path) -> None:
    async def scene(stage: Scene) -> None:
        stage.changed("plan", "ann")
        stage.changed("self", "ann", "scope", archived=True)
        stage.notifier.follow()
        assert stage.titles() == []
        stage.happens("plan", "ann", text="mine")  # as if it had been made before the archiving was known here
        assert stage.titles() == ["Your change of plan does not count: the community is archived"]
        stage.happens("plan", "ann", "artefact", text="again")
        assert len(stage.titles()) == 2  # another change, and the first one not again
        stage.happens("plan", "bob", text="of bob")
        assert len(stage.titles()) == 2

    notified(tmp_path, scene)


def test_a_removed_member_is_told_of_what_was_written_before_this_was_known(tmp_path: Path) -> None:
    async def scene(teams: OpenTeams) -> None:
        async with teams.together() as (ann, bob, cid):
            community = ann.communities.create("Bridges")
            for user in ("bob", "cid"):
                ann.communities.add(community, user, Role.EDITOR)
            await teams.later()
            for pair in teams.net.links:
                teams.net.cut(*pair)
            ann.communities.remove(community, "cid")
            ann.communities.remove(community, "bob")
            bob.documents.add(community, BytesIO(b"steel"), "plan.txt")
            for number in range(3):  # the first changes may count as made before the removal
                bob.messages.send(community, f"my report, {number}\n{'long ' * 50}")
            await teams.later()
            for pair in teams.net.links:
                teams.net.join(*pair)
            await teams.later()
            assert community not in [each.id for each in bob.communities.mine()]
            [last] = [text for text in told(bob) if "my report, 2" in text]
            assert last.startswith('Your message "my report, 2 long ')
            assert last.endswith("does not count: bob is not a member")
            assert len(last) < 120
            assert last in bob.status().lost
            assert told(ann) == told(cid) == []

    play(tmp_path, scene)


def test_who_invites_a_user_is_not_told_that_the_invitation_was_replaced_by_joining(tmp_path: Path) -> None:
    async def scene(teams: OpenTeams) -> None:
        async with teams.together() as (ann, bob, _):
            community = ann.communities.create("Bridges")
            ann.communities.invite(community, "bob")
            await teams.later()
            bob.communities.join(community)
            await teams.later()
            assert "bob" in ann.communities.get(community).members
            assert told(ann) == told(bob) == []

    play(tmp_path, scene)


def test_who_has_ended_the_subscription_is_not_told_and_older_files_get_it_once(tmp_path: Path) -> None:
    queue = NotificationQueue(tmp_path)
    queue.adopt([REMINDERS])  # as an earlier version has made it
    queue.adopt([REMINDERS, LOST_CHANGES])
    assert [each.id for each in queue.subscriptions()] == [LOST_CHANGES.id, REMINDERS.id]
    queue.remove(LOST_CHANGES.id)
    queue.adopt([REMINDERS, LOST_CHANGES])
    assert [each.id for each in queue.subscriptions()] == [REMINDERS.id]
    queue.close()
