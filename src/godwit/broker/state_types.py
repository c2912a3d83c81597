"""Two field types of states, for values of several kinds, some of which are not known in this room."""

import msgspec

__all__ = ["AnyMessage", "AnyState"]

AnyMessage = msgspec.Struct
"""A message of any kind that is registered (`godwit.codec`), also of rooms and users that add their own."""

AnyState = msgspec.Struct
"""Likewise a state of any kind that is registered, of a part that can be one of several."""
