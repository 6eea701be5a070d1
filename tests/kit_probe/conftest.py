"""The runs that tests of inspecting look into."""

from runs.inspector_fixtures import *  # noqa: F403
