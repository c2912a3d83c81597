"""The table of ways to move in the documentation is the one in the code."""

from godwit.baselines.naive_policy import NAIVE
from godwit.broker.broker_config import BrokerConfig
from godwit.mobility import mobile_broker
from godwit.mobility.attaching import Attaching
from godwit.mobility.modes import MODES, table
from tests.conventions.repository import ROOT

PAGE = "docs/reference/modes.md"
OURS = [*mobile_broker("b", {}, BrokerConfig()).component(Attaching).policies, "naive"]
"""Every mode of Godwit itself. Tests and examples may have registered others."""


def test_the_table_of_modes_is_the_one_in_the_code():
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    assert table(OURS) in page, f"{PAGE} must contain this table:\n{table(OURS)}"


def test_the_table_has_a_row_for_each_mode_and_as_many_columns_in_each():
    lines = table(OURS).split("\n")
    assert len(lines) == len(OURS) + 2
    assert len({line.count("|") for line in lines}) == 1
    assert MODES["naive"] is NAIVE
