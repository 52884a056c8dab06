"""The command line: `agentlab run`, `status`, `report`, `trace`, `try`, `notebook`, `list`, `export`."""

from agentlab.cli.app import main

__all__ = ["main"]
