"""The choice of the agent's model that the page Live watches."""


class ModelChoice:
    def __init__(self) -> None:
        self.name = ""
        """Name of the model; "" for the agent's first model, whatever its name."""
        self.notice = ""
        """The reason why another model than the chosen one is watched; "" if there is none."""

    def choose(self, name: str) -> None:
        self.name, self.notice = name, ""

    def give_up(self) -> None:
        """Chooses the first model, because the chosen one was removed."""
        self.notice = f"The model '{self.name}' was removed from the agent. The page now shows the first model."
        self.name = ""

    def take_notice(self) -> str:
        """Returns the notice and clears it, so that it is shown once."""
        notice, self.notice = self.notice, ""
        return notice
