"""Bundles in an OCI registry, as CNCF ModelPack artifacts with one layer a file.

`reference.py` addresses; `documents.py` manifests; `client.py` the connection; `upload.py` uploads;
`push.py` and `pull.py`.
"""
