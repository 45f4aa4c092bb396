"""The bundle: a folder with everything that a device needs to run, check and audit a deployment."""
