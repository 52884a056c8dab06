"""Who thinks: OpenAI-compatible endpoints, simulated, scripted and replayed models."""
