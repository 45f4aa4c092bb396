"""A plug-in of edgeopt: copy this folder, rename it, and write a pass of your own."""
