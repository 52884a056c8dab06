"""From one run to an experiment: `run_one` (live objects), `build` (names to objects), `experiment` (grid, store)."""
