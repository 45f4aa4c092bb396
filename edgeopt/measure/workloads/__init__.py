"""Workloads other than interleaved runs at full speed.

`cold` fresh processes · `paced` by the clock · `sustained` for minutes · `concurrent` several at once
`loop.py` what those that run in rounds share
"""
