"""The `godwit` command: `main` is its root, and each other module holds one command or one group of commands."""

__all__: list[str] = []
