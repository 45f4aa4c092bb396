"""Measurements on a device: the whole command runs there, and its events and files come back.

`address` reads where, `ssh` and `agent` are the ways to it, `code` packs this edgeopt, `link` talks to `far`, the
program on the device, `files` finds what a request names, and `command` runs one command.
"""
