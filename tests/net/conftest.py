"""gRPC reads its log level when it is loaded, so ours loads it first, as in a process of ours."""

import masquerade.net.grpc_stream  # noqa: F401
