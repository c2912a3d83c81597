"""The three tiers of [motion §5]: XML and XQL above, IEL and ISL between, SPEAR's SEL and SSL below.

*Theory.* Each tier is a publish/subscribe system (`systems.py`); between two there is a translation of events and one
of queries. From XQL to ISL the translation is approximative, as quantifiers, filters and wildcards are lost. From ISL
to SSL it is approximative for what the tables of the paper do not have: operators that users defined, and some
comparisons of texts. Beside SPEAR there is a second bottom tier, our own filters, to which XQL is translated directly.

*Departures* from the paper, each with a test that fails without it:
1. `$all$` under `$not$`, and within a filter, is not translated by the paper's rule, which would lose events
   (`weakening.py`).
2. A `#` within a value or an operand is written as a control character that no XML document can hold.
3. A number is held in one writing, so that 1050.0 is found by `#1050#`; in its own writing it is held as a text
   besides.
4. An element that holds elements has a text, all texts in it, which IEL does not hold. A path behind its own,
   `x/text()`, tells that there is one, and comparisons of texts ask for it. The listings leave these paths out, and
   such elements below the root.
5. A path that ends in `min` or `max` gets a `#` behind it in SEL, so that it is not taken for the extreme of another.
6. Nothing is said of an element `Serialized` below the root: in IEL that name is taken.
"""

from godwit.languages.tiers.iel import Iel, iel_of, iel_text
from godwit.languages.tiers.isl import Isl, isl_of, isl_text, islmatch
from godwit.languages.tiers.spear import Sel, Ssl, sel_of, sel_text, spearmatch, ssl_filter, ssl_of, ssl_text
from godwit.languages.tiers.translations import to_filters, to_middle, to_spear, xqlmatch

__all__ = [
    "Iel",
    "Isl",
    "Sel",
    "Ssl",
    "iel_of",
    "iel_text",
    "isl_of",
    "isl_text",
    "islmatch",
    "sel_of",
    "sel_text",
    "spearmatch",
    "ssl_filter",
    "ssl_of",
    "ssl_text",
    "to_filters",
    "to_middle",
    "to_spear",
    "xqlmatch",
]
