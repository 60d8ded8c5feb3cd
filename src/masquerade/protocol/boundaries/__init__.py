"""Boundaries of generalisation between parties that hold different columns of the same people.

testers.py    who tests which records can be released at all, and which requirements that leaves out
reachable.py  the test
start.py      the groups that a method starts from, shown once they are known to satisfy
"""
