"""Duty cycles: how a model is measured where full speed in turns is not the question.

`cold` fresh processes · `paced` by the clock · `sustained` for minutes · `concurrent` several at once
"""
