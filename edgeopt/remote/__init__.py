"""Measurements on a device over SSH: the whole command runs there, and its events and files come back.

`address` reads where, `code` packs this edgeopt, `link` talks to `far`, the program on the device, `files` finds
what a request names, and `command` runs one command.
"""
