"""Input data of a model: samples, pictures and generated inputs; and the criteria for its outputs."""
