"""The runs that tests of inspecting look into."""

from inspected_fixtures import *  # noqa: F403
