"""How long each kernel of a runtime takes, joined with the nodes of the model."""
