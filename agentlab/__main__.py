"""`python -m agentlab` is the command line."""

from agentlab.cli import main

main()
