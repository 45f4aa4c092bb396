"""Precision plans from times and outputs measured on this device; `edgeopt.quant` itself runs no model."""
