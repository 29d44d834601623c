//! gRPC and HTTP/JSON: limits, configuration, wiring.
