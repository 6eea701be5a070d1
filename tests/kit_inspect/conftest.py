"""The runs that tests of inspecting look into, and the browser."""

from pages.browser import browser as browser
from runs.inspector_fixtures import *  # noqa: F403
