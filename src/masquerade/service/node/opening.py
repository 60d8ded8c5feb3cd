"""Opening a node's datasets.

At the start every table must be right. In a node that runs, a changed configuration counts as soon as the file itself
is right, whatever its tables are like: a policy that somebody tightens must not wait for a table that is just away.
"""

from __future__ import annotations

from collections.abc import Mapping

from masquerade.errors import BadInput, MasqueradeError, ParameterError
from masquerade.service.ledger import Ledger
from masquerade.service.node.datasets import Dataset
from masquerade.service.node.logs import log
from masquerade.service.node.settings import DatasetSettings, Settings
from masquerade.service.node.state import State


def open_datasets(settings: Settings, state: State) -> dict[str, Dataset]:
    """All datasets, read and checked, and the ledger; what is wrong with any of them is told at once."""
    ledger = Ledger.load(state.ledger)
    datasets = {}
    errors: list[MasqueradeError] = []
    for name, each in settings.datasets.items():
        try:
            datasets[name] = Dataset(settings.name, each, state.secret(name, ledger.releases(name)))
            datasets[name].check()
        except BadInput as error:
            errors.append(error)
    if gathered := ParameterError.gather(errors):
        raise gathered
    return datasets


def reopen_datasets(
    party: str, settings: Settings, state: State, before: Mapping[str, Dataset]
) -> dict[str, Dataset]:
    """The datasets of a changed configuration, not read yet; ParameterError when a policy does not fit its columns."""
    found = {name: _reopened(party, each, state, before) for name, each in settings.datasets.items()}
    datasets = {name: dataset for name, dataset in found.items() if dataset is not None}
    errors: list[MasqueradeError] = []
    for dataset in datasets.values():
        try:
            dataset.check_policy()
        except ParameterError as error:
            errors.append(error)
    if gathered := ParameterError.gather(errors):
        raise gathered
    return datasets


def read_all(datasets: Mapping[str, Dataset]) -> None:
    """Read and check the tables; the log hears of those that are amiss, which are read again whenever it is asked."""
    for name, dataset in datasets.items():
        try:
            dataset.check()
        except BadInput as error:  # its text may show a cell
            told = "a table cannot be read by the changed configuration; `party card` shows why"
            log().error(told, dataset=name, kind=type(error).__name__)


def _reopened(
    party: str, settings: DatasetSettings, state: State, before: Mapping[str, Dataset]
) -> Dataset | None:
    """The dataset with the secret that it has; one that is new here, and whose secret is amiss, is left out."""
    name = settings.name
    if name in before:
        return before[name].changed_to(settings)
    try:
        return Dataset(party, settings, state.secret(name, Ledger.load(state.ledger).releases(name)))
    except BadInput as error:  # of the ledger and of secrets, which names files and shows no cell
        told = "a new dataset is left out; mend this, and start the node again"
        log().error(told, dataset=name, problems=list(error.lines))
        return None
