"""The agent for Python code: `VncUseAgent`."""

from pytest_vnc_use.agent.agent import VncUseAgent as VncUseAgent
