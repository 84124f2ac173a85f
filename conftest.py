"""For every test below: pytest's own plugin for testing plugins."""

pytest_plugins = ["pytester"]
