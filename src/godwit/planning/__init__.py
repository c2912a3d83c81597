"""Planning a network: settings, with evidence, from traces of moving clients and positions of brokers.

See `docs/guides/plan.md`. `godwit plan` and the dashboard's page *Plan* run `plan.make_plan`.
"""

from godwit.planning.plan import Plan, PlanSettings, make_plan

__all__ = ["Plan", "PlanSettings", "make_plan"]
