"""From one run to an experiment, in three layers: `run_one` (live objects), `build` (names to objects), `experiment`."""
