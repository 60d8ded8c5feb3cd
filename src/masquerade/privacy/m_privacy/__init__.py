"""m-privacy: does a requirement still hold when colluding providers take their own records out of a group?

`requirement` states it and `group_verdicts` reports on a table group by group. Below them: `constraint` says what a
coalition can make of the counts of one requirement (each model declares its own, by way of `corners` and
`surviving_values`), `coalition_masks` numbers coalitions, `group` tests many of them at once, `fitness` scores
records, `strategies` and `branch_and_bound` search for a breach, and `group_check` judges all groups of a table.

The ways to search that a job file may name are here, where they cost nothing to know.
"""

VERIFICATIONS = ("direct", "top-down", "bottom-up", "binary", "adaptive", "exact")  # see `strategies`
