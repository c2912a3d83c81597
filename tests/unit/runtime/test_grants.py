"""What a client asks for is compared with its grants in a bounded number of steps."""

import pytest

from godwit.broker.client_rights import EFFORT_MAX
from godwit.broker.messages import Denied, Request, Subscribe
from godwit.filters import FALSE
from godwit.filters.effort import Effort
from godwit.filters.language import parse
from godwit.runtime import grants
from godwit.runtime.grants import TOO_LARGE, Grants

GRANT = parse("kind = 'parking'")
REFUSED = parse(f"kind != 'parking' AND ({' OR '.join(f'(a{i} > {i} AND b{i} < {i})' for i in range(450))})")
GRANTED = parse(f"kind = 'parking' AND ({' OR '.join(f'(a{i} > {i} AND b{i} < {i})' for i in range(450))})")


def test_a_refusal_of_nine_hundred_literals_takes_few_steps() -> None:
    effort = Effort(EFFORT_MAX)
    assert Grants(FALSE, GRANT).narrowed(REFUSED, GRANT, effort) is None
    assert not effort.is_over


def test_what_cannot_be_compared_within_the_steps_is_refused_with_that_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    wish = Request(1, Subscribe(("ann", "s"), GRANTED))
    rights = Grants(FALSE, GRANT)
    assert rights.checked(wish) is wish
    monkeypatch.setattr(grants, "EFFORT_MAX", 100)
    refused = rights.checked(wish)
    assert refused.wish == Denied(TOO_LARGE)
