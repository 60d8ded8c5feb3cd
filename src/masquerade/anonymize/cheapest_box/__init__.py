"""Cheapest box first: local recoding that makes the group that loses least, then the next, of what is left.

method.py   the method: its parameters, what it refuses, how tables too large for one search are cut into blocks
space.py      how far each value of an attribute can be raised, what that loses, and what covers several values
space.py       the distinct records, and the boxes that a vector of levels cuts them into
method.py     which vectors of levels are searched: all of them, or those learned from samples
method.py      the search itself: the cheapest box that satisfies, again and again
groups.py      groups of records: what they span, count and lose
groups.py   what no box took: each joins the group that it makes dearer least
"""
