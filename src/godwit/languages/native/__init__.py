"""Our own language of subscriptions: filters, and an exact part that is tested at the edge.

A text that is a filter is read by `filters.language` and by nothing here. Another one is read into a condition
(`exact_parser.py`, `expressions.py`), from which the filter to route by (`exact_bounds.py`) and the exact test
(`exact_test.py`) are made. docs/reference/filter_language.md is the reference.
"""

from godwit.languages.native.native_language import NativeLanguage

__all__ = ["NativeLanguage"]
