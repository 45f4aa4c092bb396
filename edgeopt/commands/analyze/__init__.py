"""Analysis of a model or a bundle, with facts from the device and its runtimes: `edgeopt analyze`."""
