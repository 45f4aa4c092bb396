"""Workloads other than interleaved runs at full speed.

`cold` fresh processes · `paced` by the clock · `sustained` for minutes · `concurrent` several at once
"""
