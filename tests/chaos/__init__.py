"""Chaos: real brokers in real processes, every kind of fault, and a checker that knows nothing of our code."""
