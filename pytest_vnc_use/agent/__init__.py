"""What Python code may call: `VncUseAgent`."""

from pytest_vnc_use.agent.agent import VncUseAgent as VncUseAgent
