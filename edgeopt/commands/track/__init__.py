"""Results of earlier commands, logged to MLflow: `edgeopt track`."""
