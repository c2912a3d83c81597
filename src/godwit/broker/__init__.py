"""Brokers: pure machines that route events by content. No clock, no socket, no randomness, no logging."""

__all__: list[str] = []
