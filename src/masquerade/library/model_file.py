"""The file of a model, as `masquerade learn`, a coordinator or `save` has written it; and what a site keeps of it."""

from __future__ import annotations

import json
from pathlib import Path

from masquerade.errors import DataError, ParameterError
from masquerade.files import read_file
from masquerade.methods import learning_methods
from masquerade.protocol.learn.learned import Learned
from masquerade.protocol.learn.models.model import NotAModel
from masquerade.protocol.learn.site_key import SiteKey

SITE_KEY = (
    ".site-key.json"  # the ending of what predicting by a model of mapped records needs, beside the model
)


def read_model_file(path: str | Path) -> Learned:
    """Read a model with all that its file tells of it; DataError if it is none."""
    name = Path(path).name
    try:
        written = json.loads(read_file(Path(path)))
        algorithm = dict(written["algorithm"])
        method = learning_methods().get(algorithm["name"])
        if method is None:
            known = ", ".join(learning_methods())
            text = f'there is no method "{algorithm["name"]}" for models; there are {known}'
            raise DataError.about(name, text)
        return Learned(
            algorithm,
            method.learns.read(written),
            dict(written.get("roles", {})),
            tuple(written.get("parties", ())),
            int(written.get("records", 0)),
            dict(written.get("metrics", {})),
            dict(written.get("curves", {})),
            session=str(written.get("session", "")),
            missing_values=_texts(written.get("missing_values")),
        )
    except NotAModel as error:
        raise DataError.about(name, f"no model: {error}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise DataError.about(name, "this is no file of a model") from None


def read_site_key(learned: Learned, model: str | Path, path: str | Path) -> SiteKey:
    """Read what a site keeps of the session in which a model of mapped records was learned."""
    key = SiteKey.read(read_file(Path(path)), Path(path).name)
    if key.session != learned.session:
        session = learned.session[:16] or "none that is named"
        told = f"of session {key.session[:16]}, and {Path(model).name} is of {session}"
        raise ParameterError(f"{Path(path).name}: the matrix is {told}: use the one of this model's session")
    return key


def _texts(written: object) -> tuple[str, ...] | None:
    """Return a list of texts, which older files do not have; TypeError if it is none."""
    if written is None:
        return None
    if not isinstance(written, list) or not all(isinstance(each, str) for each in written):
        raise TypeError
    return tuple(written)
