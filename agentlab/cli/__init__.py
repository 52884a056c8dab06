"""The command line: one module per group of commands, each command a thin layer over a function."""

from agentlab.cli.app import main

__all__ = ["main"]
