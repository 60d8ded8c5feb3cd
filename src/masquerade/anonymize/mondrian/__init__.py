"""Mondrian: cut groups of records, each where it suits that group, while every part satisfies the requirement.

algorithm.py             Mondrian itself: its parameters
method.py               which allowed cut is made
method.py              which one where the release is for a purpose
providers.py        the variant for m-privacy, which also cuts between providers
partition.py             the loop over batches of groups
hidden_cuts.py           undoes cuts between providers whose parts look alike and violate as one group
method.py                  which QIDs are cut together
linked.py           the loop for several QIDs that share attributes
linked_parts.py          which of their cuts are allowed
axes.py, trees.py        the dimensions: what a group covers along each, and where it would be cut
axes.py        the dimensions of a workload's predicates, along which is cut first
cuts.py            the cuts along one dimension, by a pass over the records
cuts.py   the cuts along all taxonomies, from the counts of tally.py
cuts.py, judge.py       the parts that cuts would make, and whether they satisfy
groups.py                groups that may be cut further, finished groups and their release
"""
