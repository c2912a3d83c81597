"""Fuzzing: what comes from outside is spoilt at random, and nothing but the errors that are meant may come of it.

`make fuzz`, or `python -m tests.fuzz --help`. A case is one spoilt text, frame or packet that is read, or one spoilt
message that a machine hears. A case is found again by its target, seed and number.
"""
