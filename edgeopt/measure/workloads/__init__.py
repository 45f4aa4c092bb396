"""Workloads other than interleaved runs at full speed.

`cold` fresh processes · `paced` at a fixed rate · `sustained` for minutes · `concurrent` several runs at once
`loop.py` the code that workloads with rounds share
"""
