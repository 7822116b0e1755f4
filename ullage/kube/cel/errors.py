"""Errors of CEL: the text is no expression, or the expression has no value."""


class NotCel(ValueError):
    """The text is no expression of the language, or uses a function that is not known. `at` is where."""

    def __init__(self, problem: str, at: int = 0) -> None:
        super().__init__(problem)
        self.problem = problem
        self.at = at

    def marked(self, text: str) -> str:
        """Return the problem with a marker under its place in the text, as compilers do."""
        return f"ERROR: <input>:1:{self.at + 1}: {self.problem}\n | {text}\n | {'.' * self.at}^"


class CelError(ValueError):
    """Evaluation came to no value: a missing key, a wrong type, a division by zero."""
