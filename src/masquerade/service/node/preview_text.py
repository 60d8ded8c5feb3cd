"""A preview in words: what a contract lets leave a party's machine, for the person who decides."""

from __future__ import annotations

from masquerade.service.kinds import RULES
from masquerade.service.node.preview import Preview


def described(made: Preview) -> list[str]:
    """A preview for a person."""
    price = made.price
    lines = [
        f"deal {made.deal}",
        f"contract {made.contract}, attempt {made.attempt} of {made.attempts}, "
        f"{'expired' if made.expired else 'valid until'} {made.expiry}",
        f"signed by: {', '.join(made.signed_by) or 'nobody yet'}",
        *(f"the signature of {name} does not count: {why}" for name, why in made.not_signed_by.items()),
        f"asked by {made.user}, for {made.purpose}; the release goes to {', '.join(made.recipients)}",
        f"  signed by {made.user} with the certificate {made.request_signed_by}"
        if made.request_signed_by is not None
        else "  on the coordinator's word: no signature of the user is known to be right",
        f"parties: {', '.join(made.parties)}; from {made.dataset}, snapshot {made.snapshot}",
        *_roll_up(made),
        "",
        f"These columns leave {made.party}, for {RULES[made.arrangement].of_a_party}:",
    ]
    for column in made.columns:
        lines.append(f"  {column.name}: {column.form}; {column.cells}")
        lines += [
            f"    coarse enough for {each}" for each in column.coarse_enough_for if column.form != "as it is"
        ]
        lines += [f"    guarded by {each}" for each in column.coarse_enough_for if column.form == "as it is"]
        lines += [f"    {who}: {what}" for who, what in column.shown_to.items()]
    if made.class_column is not None:
        lines.append(f"  {made.class_column.name}: the class")
        lines += [f"    {who}: {what}" for who, what in made.class_column.shown_to.items()]
    if not made.columns and made.class_column is None:
        lines.append("  none")
    lines += ["", "The release as a whole satisfies:", *(f"  {each}" for each in made.requirements)]
    lines.append(f"  for somebody who knows all attributes: {made.over_all_attributes}")
    lines += ["", "Others learn besides:", *(f"  {each}" for each in made.peers_learn)]
    lines += ["", "Figures:", *(f"  {name}: {what}" for name, what in made.figures.items())]
    lines += ["", "What stays:", *(f"  {each}" for each in made.stays)]
    lines += ["", "Protocol: " + ", ".join(f"{name} {value}" for name, value in made.protocol.items())]
    lines.append(
        f"Price: {price['fixed']} cents and {price['per_record']} for each released record; "
        f"all parties together at most {price['most_of_all_parties']} of a budget of {price['budget']}"
    )
    return lines


def _roll_up(made: Preview) -> list[str]:
    if made.rolled_up_from is None:
        return []
    return [
        f"rolled up from the release {made.rolled_up_from}: the coordinator merges its groups, no protocol runs, and "
        "nothing leaves this machine anew; what follows is what the earlier release has shown"
    ]
