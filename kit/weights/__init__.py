"""Weight maps between the kit and other libraries."""
