"""The pages whose ```sh blocks tests run, by the test that does."""

TEAM_GUIDE = "docs/guides/work_together.md"
BROKER_PAGES = (
    "README.md",
    "docs/tutorial.md",
    "docs/guides/administer.md",
    "docs/guides/cloudevents.md",
    "docs/guides/languages.md",
    "docs/guides/mqtt.md",
    "docs/guides/run.md",
    "docs/reference/cli.md",
    "docs/reference/event_log.md",
)
PLAYED = frozenset({TEAM_GUIDE, *BROKER_PAGES})
"""By `test_team_guide.py` and by `test_page_commands.py`."""
