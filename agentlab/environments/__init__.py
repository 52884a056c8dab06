"""What is tested: one folder per environment with its state, tools, tasks and README."""
