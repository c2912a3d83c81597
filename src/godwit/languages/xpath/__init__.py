"""XPath 1.0 as a language of subscriptions: an XML event matches if the expression is true for it.

Reference: docs/reference/xpath.md.
"""

from godwit.languages.xpath.language import XPathLanguage

__all__ = ["XPathLanguage"]
