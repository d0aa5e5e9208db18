"""Settings of all Python tests: hypothesis draws the same examples every time, and few of them."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "etrace", derandomize=True, deadline=None, max_examples=25, database=None, suppress_health_check=list(HealthCheck)
)
settings.load_profile("etrace")
