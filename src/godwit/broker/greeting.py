"""A client's greeting and its user's quota of sessions: the session fits, or replaces an older one, or is
refused. (`user_quotas.py`)"""

from collections.abc import Callable

from godwit.broker.effects import Close, Effect, Tell
from godwit.broker.host import Host
from godwit.broker.messages import Attach, Bye

__all__ = ["greeted"]


def greeted(
    host: Host,
    connection: str,
    message: Attach,
    attach: Callable[[str, Attach, float], list[Effect]],
    now: float,
) -> list[Effect]:
    """Let a client attach, if its user may have one more session."""
    sessions, client = host.sessions, message.client
    effects: list[Effect] = []
    oldest, reason = sessions.quotas.room_for(client, len(sessions), host.config.limits)
    if oldest is not None:
        ended = sessions.end(oldest, now, "its user has begun another session (limits.user_share)")
        effects += host.withdraw(ended, now, oldest)
    if reason:
        return [*effects, Tell(connection, Bye(reason)), Close(connection, reason)]
    return effects + attach(connection, message, now)
