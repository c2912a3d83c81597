"""Hypothesis profiles: `default` is quick and draws the same cases on every run, `thorough` thousands of fresh ones.

`pytest --hypothesis-profile=thorough tests/property`, or set HYPOTHESIS_PROFILE.
"""

import os

from hypothesis import HealthCheck, settings

COMMON = settings(
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],  # a loaded machine is no fault of a law
)
settings.register_profile("default", COMMON, max_examples=100, derandomize=True, database=None)
settings.register_profile("thorough", COMMON, max_examples=5_000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
