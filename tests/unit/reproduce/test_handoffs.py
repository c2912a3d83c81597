"""Every scenario in which ways to move are compared can be run."""

import pytest

from godwit.reproduce.handoffs import WAYS, scenario_of
from godwit.simulator.scenario import check


@pytest.mark.parametrize("way", ["", *WAYS])
@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("full", [False, True])
def test_every_scenario_can_be_run(way, down, full):
    check(scenario_of(way, full=full, old_broker_down=down))
