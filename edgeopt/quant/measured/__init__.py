"""Plans of precision from times and answers that were measured here; `quant` itself runs no model."""
