"""Mondrian between parties that hold different columns of the same people.

method.py      the method: its parameters, what it refuses, what it discloses
party.py       one party's part, from the alignment to the hand-in
levels.py      the loop over levels: bids, winners, cuts
linked.py      the loop where different QIDs share attributes
level_cuts.py  cuts as they travel
checks.py      requirements on sensitive values that another party holds
own_cuts.py    a party's cuts along its own attributes, and what it makes of everybody's
groups.py      where the records of its groups are, and the finished groups
kernels.py     what a chunk of its records does
"""
