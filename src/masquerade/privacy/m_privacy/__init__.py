"""m-privacy: does a requirement still hold when colluding providers take their own records out of a group?

`requirement` states it and reports on a table group by group. Below it: `groups` judges all groups of a table,
`strategies` searches one of them for a breach, `constraint` says what a coalition can make of the counts of one
requirement (each model declares its own), and `search` numbers coalitions.

The ways to search that a job file may name are here, where they cost nothing to know.
"""

VERIFICATIONS = ("direct", "top-down", "bottom-up", "binary", "adaptive", "exact")  # see `strategies`
