from edgeopt.backends import BACKENDS
from edgeopt.search.making.recipes import RECIPES, place_of, recipe_named


def test_names_are_unique_and_found():
    names = [recipe.name for recipe in RECIPES]
    assert len(set(names)) == len(names)
    assert [recipe_named(name) for name in names] == list(RECIPES)
    assert [place_of(name) for name in names] == list(range(len(names)))


def test_every_backend_of_a_recipe_reads_its_file():
    backends = {backend.name: backend for backend in BACKENDS}
    for recipe in RECIPES:
        file = recipe.file or "model.onnx"
        for name in recipe.backends:
            assert file.endswith(backends[name].formats), recipe.name


def test_whatever_changes_the_precision_asks_for_data():
    floats = {"fp16", "bf16"}  # made-up inputs tell whether something left their range
    assert all(recipe.exact != recipe.needs_data for recipe in RECIPES if recipe.name not in floats)
    assert [recipe.name for recipe in RECIPES if recipe.exact] == ["source", "cleaned", "lowered"]
