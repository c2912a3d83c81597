"""Where brokers can be reached."""

import msgspec

__all__ = ["Address"]


class Address(msgspec.Struct, frozen=True):
    """Where a broker can be reached."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"
