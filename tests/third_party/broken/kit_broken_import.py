"""A package that needs another one, which is not installed."""

import a_package_that_nobody_installed

from kit import hookimpl

kit_api = 1
BREAKS = "import"


@hookimpl
def kit_components():
    return [a_package_that_nobody_installed.Part]
