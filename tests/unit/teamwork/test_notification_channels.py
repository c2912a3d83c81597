"""What a channel can reach."""

import pytest

from godwit.teamwork.machine.notification_rules import Channel
from godwit.teamwork.notification_channels import problem_of_target


@pytest.mark.parametrize(
    ("kind", "target", "said"),
    [
        ("webhook", "https://example.org/hook", ""),
        ("webhook", "ftp://example.org", "a webhook needs a URL with http or https, not 'ftp://example.org'"),
        ("webhook", "example.org", "a webhook needs a URL"),
        ("mail", "ann@example.org", ""),
        ("mail", "ann", "a mail channel needs one address, as ann@example.org, not 'ann'"),
        ("mail", "ann@example.org\nBcc: eve@example.org", "a mail channel needs one address"),
        ("message", "", ""),
        ("desktop", "", ""),
    ],
)
def test_a_target_that_nobody_can_be_reached_by_is_named(kind: str, target: str, said: str) -> None:
    problem = problem_of_target(Channel(kind, target))
    assert problem.startswith(said)
    assert bool(problem) == bool(said)
