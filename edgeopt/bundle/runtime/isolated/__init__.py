"""Sessions whose model runs in a worker process: `edgeopt.load(..., isolate=True)`."""
