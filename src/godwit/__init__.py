"""Godwit: publish/subscribe for things that move.

A subscriber says what it wants by content, by place and by the sender's context; brokers form a network, and clients
roam over it: nothing is lost, nothing comes twice, order is kept.

The rooms of the package, from the lowest up, are described in docs/architecture.md. Nothing is imported here, so that
`import godwit` costs nothing: take what you need from its room, such as `godwit.filters` or `godwit.matching`.
"""

__all__ = ["__version__"]

__version__ = "0.1.0.dev0"
