"""Policies: the actions that are allowed when no user is at the keyboard."""

from pytest_vnc_use.safety.rules import Policy as Policy, Rule as Rule
