"""A job: the TOML file that sets the inputs, the privacy requirements, the algorithm and the outputs."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
