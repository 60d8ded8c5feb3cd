"""Any bytes as a model: from a file, a DataError or a model that predicts; from a party, a model, or who sent none."""

from __future__ import annotations

import json

from fuzz.oracle import allowing, scratch
from masquerade.errors import DataError, PeerBrokeProtocol
from masquerade.methods import learning_methods
from masquerade.protocol.learn.frame import read_model
from masquerade.surface import load_model

PATH = scratch() / "model.json"
TREE = {"attribute": "wind", "children": {"weak": {"label": "yes"}, "strong": {"label": "no"}}}
LINE = {"coefficients": {"age": 0.5, "town": {"A": 0.0, "B": 1.5}}, "intercept": -1.0, "classes": ["no", "yes"]}
ERRORS = {
    "standard_errors": {"age": 0.1, "town": {"A": 0.0, "B": 0.5}},
    "intercept_standard_error": 0.2,
    "conditional_on": "ridge = 1",
}
CURVE = {"center": 1.0, "baseline": [{"time": 2.0, "cumulative_hazard": 0.5}], "between_times": "constant"}


def fuzz(data: bytes) -> None:
    PATH.write_bytes(data)
    with allowing(DataError):
        loaded = load_model(PATH)
        assert list(loaded.feature_names_in_) is not None
    for method in learning_methods().values():
        with allowing(PeerBrokeProtocol):
            model, _ = read_model(method.learns, data, "bank")
            assert method.learns.read(model.as_json()) == model
            assert isinstance(model.derived(), dict)


def seeds() -> dict[str, bytes]:
    return {
        "tree": json.dumps({"algorithm": {"name": "id3"}, "tree": TREE}).encode(),
        "line": json.dumps({"algorithm": {"name": "logistic"}, **LINE}).encode(),
        "errors": json.dumps({"algorithm": {"name": "logistic"}, **LINE, **ERRORS}).encode(),
        "survival": json.dumps({"algorithm": {"name": "cox"}, **LINE, **ERRORS, **CURVE}).encode(),
        "net": json.dumps({"parents": {"a": [], "b": ["a"]}, "tables": {}}).encode(),
        "deep": b'{"algorithm": {"name": "id3"}, "tree": '
        + b'{"attribute": "a", "children": {"b": ' * 400
        + b'{"label": "c"}'
        + b"}}" * 400
        + b"}",
    }
