"""Teamwork on the move: people, communities, documents, search, messages and notification. [motion §1, §2]

`machine` holds what a peer decides, without a clock, a disk or a socket. Everything else here is its driver.
"""

__all__: list[str] = []
