"""Cheapest box first: local recoding that makes the group that loses least, then the next, of what is left.

space.py    how far each value of an attribute can be raised, what that loses, and what covers several values; the
            distinct records, and the boxes that a vector of levels cuts them into
method.py   which vectors of levels are searched, the search itself, what becomes of records that no box took; and the
            method: its parameters, what it refuses, how tables too large for one search are cut into blocks
"""
