"""A lab: searches of several models on several devices, scheduled so that no two measure on one host at once.

`lab_file.py` the devices and models; `cell.py` the commands of a cell as processes; `schedule.py` their order, by
Dask; `records.py` the results; `lab_run.py` all of it, and what is kept from an earlier run.
"""
