"""XQL, the XML Query Language of 1998, as a language of subscriptions: an XML event matches if the query finds
something.

Reference: docs/reference/xql.md.
"""

from godwit.languages.xql.language import XqlLanguage

__all__ = ["XqlLanguage"]
