"""Bridges: a broker as a client of other systems. (docs/guides/bridges.md)"""
