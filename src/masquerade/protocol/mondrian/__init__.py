"""Mondrian between parties that hold different columns of the same people.

method.py      the method: its parameters, what it refuses, what it discloses
party.py       one party's part, from the alignment to the hand-in
levels.py      the loop over levels: bids, winners, cuts, and how these travel
linked.py      the loop where different QIDs share attributes
checks.py      requirements on sensitive values that another party holds
own_cuts.py    a party's cuts along its own attributes, what it makes of everybody's, and where its groups' records are
kernels.py     what a chunk of its records does
"""
