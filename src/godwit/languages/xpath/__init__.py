"""XPath 1.0 as a language of subscriptions: an XML event is wanted when the expression is true of it.

Reference: docs/reference/xpath.md.
"""

from godwit.languages.xpath.language import XPathLanguage

__all__ = ["XPathLanguage"]
