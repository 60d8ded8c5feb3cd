"""Mondrian: cut groups of records, each where it suits that group, while every part satisfies the requirement.

algorithm.py             Mondrian itself: its parameters
choices.py               which allowed cut is made
priority.py              which one where the release is for a purpose
provider_aware.py        the variant for m-privacy, which also cuts between providers
partition.py             the loop over batches of groups
hidden_cuts.py           undoes cuts between providers whose parts look alike and violate as one group
qids.py                  which QIDs are cut together
linked_qids.py           the loop for several QIDs that share attributes
linked_parts.py          which of their cuts are allowed
axes.py, trees.py        the dimensions: what a group covers along each, and where it would be cut
predicate_axes.py        the dimensions of a workload's predicates, along which is cut first
candidates.py            the cuts along one dimension, by a pass over the records
taxonomy_candidates.py   the cuts along all taxonomies, from the counts of tally.py
parts.py, judge.py       the parts that cuts would make, and whether they satisfy
groups.py                groups that may be cut further, finished groups and their release
"""
