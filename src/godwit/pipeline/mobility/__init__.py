"""Movement mined from positions: what of them to believe, where clients stay, where they go next.

    fixes → cleaning → cells → visits → movement graph, dwell times, next-place model, proxy sets, coverage

`mining.mine` is the whole way, and what `godwit pipeline mobility` runs; each module is one step of it.
"""

__all__: list[str] = []
