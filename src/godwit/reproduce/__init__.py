"""Reproduction: the papers' experiments run by Godwit's code, and their claims compared with the results.

>>> from godwit.reproduce import PAPERS
>>> sorted(PAPERS)
['mobile', 'motion', 'pubmob', 'rebeca', 'spcf']
"""

from godwit.reproduce.claims import PAPERS, Claim, Setting, check_paper, claims_of

__all__ = ["PAPERS", "Claim", "Setting", "check_paper", "claims_of"]
