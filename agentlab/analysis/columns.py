"""Moved to agentlab.columns; this file goes when the last import of it is gone."""

from agentlab.columns import *  # noqa: F403
