"""The Open Inference Protocol v2 by gRPC; nothing of it is loaded without `--grpc-port`."""
