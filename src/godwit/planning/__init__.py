"""Planning a network: traces of moving clients and positions of brokers in, settings and their evidence out.

See `docs/guides/plan.md`. `godwit plan` and the dashboard's page *Plan* run `plan.make_plan`.
"""

from godwit.planning.plan import Plan, PlanSettings, make_plan

__all__ = ["Plan", "PlanSettings", "make_plan"]
