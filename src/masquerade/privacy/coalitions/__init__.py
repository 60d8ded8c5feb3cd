"""Can a coalition of providers, who take their own records out of a group, learn about those that remain?

`masks` names coalitions, `constraint` says what must hold for what remains, `group` tests many coalitions at once,
`fitness` says how well records satisfy, `strategies` are the ways of the m-privacy paper to search for a coalition,
`exact` (with `few_values` and `bounded`) finds the worst one without trying all, and `many_groups` judges all groups
of a table.
"""
