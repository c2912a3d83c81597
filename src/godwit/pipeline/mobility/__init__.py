"""Mining of movements from positions: cleaning, stays, and the next place.

    fixes → cleaning → cells → visits → movement graph, dwell times, next-place model, proxy sets, coverage

`mining.mine` runs all steps, and is what `godwit pipeline mobility` calls; each module is one step.
"""

__all__: list[str] = []
