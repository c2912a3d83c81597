"""What goes out twice can be told by its identifier, and what is being sent stays as it is."""

from pathlib import Path

from godwit.teamwork.machine.notification_rules import Notification
from godwit.teamwork.notification_queue import WAITING_MAX, NotificationQueue
from tests.unit.teamwork.notifier_scene import PLANS


def add(queue: NotificationQueue, title: str, due: float = 0.0) -> None:
    queue.add(PLANS, Notification("1", "s", f"artefact/{title}", title, 0.0), due)


def test_a_batch_that_was_begun_is_the_same_after_the_end_of_the_process(tmp_path: Path) -> None:
    queue = NotificationQueue(tmp_path)
    queue.put(PLANS)
    add(queue, "a")
    add(queue, "b")
    [batch] = queue.due(1.0)
    queue.begin(batch)
    add(queue, "c")
    queue.close()
    queue = NotificationQueue(tmp_path)
    assert queue.due(1.0) == [batch]
    queue.sent(batch.numbers)
    [rest] = queue.due(1.0)
    assert [each.title for each in rest.notifications] == ["c"]
    assert rest.id != batch.id
    queue.close()


def test_others_wait_for_a_batch_that_failed_and_then_go_together(tmp_path: Path) -> None:
    queue = NotificationQueue(tmp_path)
    queue.put(PLANS)
    add(queue, "a")
    [batch] = queue.due(1.0)
    queue.begin(batch)
    queue.failed(batch.numbers, 100.0)
    for title in "bcd":
        add(queue, title, 2.0)
    assert queue.due(50.0) == []
    assert queue.next_due() == 100.0
    [again] = queue.due(100.0)
    assert (again.id, again.attempts, len(again.notifications)) == (batch.id, 1, 1)
    queue.sent(again.numbers)
    assert queue.next_due() == 2.0
    [rest] = queue.due(100.0)
    assert [each.title for each in rest.notifications] == ["b", "c", "d"]
    queue.close()


def test_what_is_being_sent_is_not_left_out(tmp_path: Path) -> None:
    queue = NotificationQueue(tmp_path)
    queue.put(PLANS)
    add(queue, "first")
    [batch] = queue.due(1.0)
    queue.begin(batch)
    with queue.transaction():
        for number in range(WAITING_MAX + 3):
            add(queue, str(number))
    [still] = queue.due(1.0)
    assert still.notifications == batch.notifications
    queue.sent(still.numbers)
    [rest] = queue.due(1.0)
    assert (len(rest.numbers), rest.left_out) == (WAITING_MAX - 1, 4)
    queue.close()


def test_peers_have_different_identifiers(tmp_path: Path) -> None:
    ids = []
    for name in ("one", "other"):
        queue = NotificationQueue(tmp_path / name)
        queue.put(PLANS)
        add(queue, "a")
        ids.append(queue.due(1.0)[0].id)
        queue.close()
    assert ids[0] != ids[1]
