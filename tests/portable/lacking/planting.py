"""Plants a statement into a function of a module while it is imported, in this process and those that it starts.

EDGEOPT_PLANTED is JSON: the module, the function ("" for the end of the module), and the statement.
"""

import ast
import importlib.machinery
import json
import os
import sys


class Planter:
    """Finder of the one module; it leaves the search for the file to the finders after it."""

    def __init__(self, module, function, statement):
        self.module, self.function, self.statement = module, function, statement

    def find_spec(self, name, path=None, target=None):
        if name != self.module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        loader = importlib.machinery.SourceFileLoader(name, spec.origin)
        loader.get_code = lambda _: compile(self._planted(loader.get_source(name)), spec.origin, "exec")
        spec.loader = loader
        return spec

    def _planted(self, source):
        tree, planted = ast.parse(source), ast.parse(self.statement).body
        if not self.function:
            tree.body += planted
            return tree
        (function,) = (
            each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef) and each.name == self.function
        )
        function.body[:0] = planted
        return ast.fix_missing_locations(tree)


def install():
    if text := os.environ.get("EDGEOPT_PLANTED"):
        sys.meta_path.insert(0, Planter(*json.loads(text)))
