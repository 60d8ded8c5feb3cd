from .declared import (
    Declared as Declared,
    Parameter as Parameter,
    checked as checked,
    numbers_of as numbers_of,
    parameter as parameter,
    parameter_error as parameter_error,
    parameters_of as parameters_of,
    read_declared as read_declared,
    shown_value as shown_value,
    without_floats as without_floats,
    words_of as words_of,
)
from .decoders import convert as convert, json_decoder as json_decoder, msgpack_decoder as msgpack_decoder
from .form import (
    Form as Form,
    Problems as Problems,
    fill as fill,
    key as key,
    kinds_of_keys as kinds_of_keys,
    known_keys as known_keys,
    must_be as must_be,
    read_form as read_form,
    read_json as read_json,
    read_toml as read_toml,
)
from .rules import (
    Rule as Rule,
    choice as choice,
    file as file,
    number as number,
    optional as optional,
    quoted as quoted,
    shares as shares,
    switch as switch,
    text as text,
    whole as whole,
)
