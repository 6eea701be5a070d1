"""The runs that tests of inspecting look into, and the browser."""

from browser import browser as browser
from inspected_fixtures import *  # noqa: F403
