"""The planning layer: a plan is proposed by a model, and read, checked, tracked and recovered by plain functions."""
