"""The page Live: latency, memory and load of a running model, bundle or agent."""
