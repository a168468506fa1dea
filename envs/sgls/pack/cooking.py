"""Cooking: recipes, their ingredients and times, nutrition, substitutes and a shopping list."""

from __future__ import annotations

from typing import Any

from .base import Dice, Domain, Named, State, known, refuse, table
from .params import NAME, array, enum, identifier, integer, name, record, text
from .words import DISHES, INGREDIENTS

COOKING = Domain("cooking")

DIETS = ("vegan", "vegetarian", "gluten_free", "low_carb")
DIET = enum(*DIETS, say={"gluten_free": "gluten-free", "low_carb": "low-carb"}, words=("diet",))
BOOK = Named.of("RCP", "recipe", DISHES)
RECIPE_ID = identifier("RCP", BOOK.ids.sample, words=("recipe",))
INGREDIENT = name(INGREDIENTS, words=("ingredient", "food"))
SERVINGS = integer(1, 24, words=("people", "servings", "portions", "persons"), usual=(2, 12))
LISTS = enum("weekly", "party", "holiday", words=("list",))
_MEAT = ("salmon", "chicken")
_MEATLESS = tuple(dish for dish in DISHES if dish.split()[0] not in _MEAT)
_ANIMAL = {"vegetarian": _MEAT, "vegan": (*_MEAT, "butter", "cream", "eggs", "milk", "honey", "yoghurt")}
_PLANTS = tuple(ingredient for ingredient in INGREDIENTS if ingredient not in _ANIMAL["vegan"])
_COUNTED = ("carrots", "eggs", "onions", "potatoes", "tomatoes")
_ALIKE = (
    ("butter", "cream", "milk", "yoghurt"),
    ("barley", "chickpeas", "lentils", "rice"),
    ("chicken", "eggs", "mushrooms", "salmon"),
    ("carrots", "onions", "potatoes", "pumpkin", "spinach", "tomatoes"),
    ("flour", "garlic", "honey", "walnuts"),
)
UNITS = ("g", "ml", "pieces")


@COOKING.tool(
    params={
        "ingredient": INGREDIENT("Main ingredient."),
        "diet": DIET("Diet the recipe must suit.").optional(None),
        "max_minutes": integer(15, 120, 5, words=("time", "minutes"))("Longest total time.").optional(None),
    },
    returns={"recipe_id": RECIPE_ID, "dish": NAME, "minutes": integer(1, 600)},
    asks=(
        "Suggest a dish with {ingredient}.",
        "Find me a {diet} recipe with {ingredient}.",
        "What can I cook with {ingredient} in at most {max_minutes} minutes?",
        "I'm after a {diet} dish with {ingredient} that takes no more than {max_minutes} minutes.",
    ),
    reply="You could make {.dish} ({.recipe_id}) with {ingredient}; it takes {.minutes} minutes.",
    vague=("Find me a {diet} recipe that uses up what I have left in the fridge, it's just one thing.",),
)
def search_recipes(
    state: State, ingredient: str, diet: str | None = None, max_minutes: int | None = None
) -> dict[str, Any]:
    """Search a recipe by its main ingredient, optionally by diet and total time."""
    ingredient = known(INGREDIENTS, ingredient, "ingredient", "ingredient")
    if diet in _ANIMAL and ingredient in _ANIMAL[diet]:
        refuse(f"No {diet} recipe uses {ingredient}.", "unavailable")
    dice = Dice(state, "search", ingredient, diet, max_minutes)
    dishes = DISHES if diet is None else _MEATLESS
    dish = dice.choice([dish for dish in dishes if dish[:5] == ingredient[:5]] or dishes)
    minutes = dice.integer(10, min(max_minutes or 90, 90))
    return {"recipe_id": BOOK.id(state, dish), "dish": dish, "minutes": minutes}


@COOKING.tool(
    params={"dish": name(DISHES, words=("dish", "recipe"))("Name of the dish.")},
    returns={"recipe_id": RECIPE_ID, "dish": NAME, "difficulty": enum("easy", "medium", "hard")},
    asks=(
        "Do you have a recipe for {dish}? I need its id.",
        "How difficult is {dish} to make?",
        "Find the recipe of {dish}.",
    ),
    reply="The recipe for {dish} is {.recipe_id}; it is {.difficulty} to make.",
)
def find_recipe(state: State, dish: str) -> dict[str, Any]:
    """Find the recipe of a dish by the dish's name: id and difficulty."""
    dish = known(DISHES, dish, "dish", "dish")
    level = Dice(state, "difficulty", dish).choice(("easy", "medium", "hard"))
    return {"recipe_id": BOOK.id(state, dish), "dish": dish, "difficulty": level}


@COOKING.tool(
    params={
        "recipe_id": RECIPE_ID("Id of the recipe, as RCP-12345."),
        "servings": SERVINGS("Number of servings.").optional(4),
    },
    returns={
        "recipe_id": RECIPE_ID,
        "servings": integer(1, 24),
        "items": array(record(ingredient=NAME, quantity=integer(1, 100_000), unit=enum(*UNITS)), 1, 8),
    },
    asks=(
        "Which ingredients does recipe {recipe_id} need?",
        "What do I have to buy to make recipe {recipe_id} for {servings} people?",
        "List the ingredients of {recipe_id}, scaled to {servings} servings.",
    ),
    reply="For {.servings} servings you need {.items.0.quantity} {.items.0.unit} of {.items.0.ingredient}, "
    "{.items.1.quantity} {.items.1.unit} of {.items.1.ingredient} and {.items.2.quantity} {.items.2.unit} of "
    "{.items.2.ingredient}.",
)
def get_ingredients(state: State, recipe_id: str, servings: int = 4) -> dict[str, Any]:
    """Ingredients of a recipe with quantities for a number of servings, by the recipe's id."""
    dish = BOOK.name(state, recipe_id)
    dice = Dice(state, "ingredients", recipe_id)
    main = next(ingredient for ingredient in INGREDIENTS if ingredient[:5] == dish[:5])
    items: list[dict[str, Any]] = []
    for ingredient in [*dice.pick([plant for plant in _PLANTS if plant != main], 2), main]:
        each, unit = (dice.integer(1, 3), "pieces") if ingredient in _COUNTED else (dice.integer(10, 120, 10), "g")
        items.append({"ingredient": ingredient, "quantity": each * servings, "unit": unit})
    return {"recipe_id": recipe_id, "servings": servings, "items": items}


@COOKING.tool(
    params={"recipe_id": RECIPE_ID("Id of the recipe.")},
    returns={
        "recipe_id": RECIPE_ID,
        "dish": NAME,
        "preparation_minutes": integer(1, 600),
        "oven_minutes": integer(0, 600),
        "oven_celsius": integer(0, 300),
    },
    asks=(
        "How long does recipe {recipe_id} take to prepare and to bake?",
        "How hot must the oven be for {recipe_id}, and for how long?",
        "Tell me preparation time and oven time of recipe {recipe_id}.",
    ),
    reply="{.dish} takes {.preparation_minutes} minutes to prepare and {.oven_minutes} minutes in the oven at "
    "{.oven_celsius} °C.",
)
def get_cooking_times(state: State, recipe_id: str) -> dict[str, Any]:
    """Preparation time, oven time and oven temperature of a recipe, by its id."""
    dish = BOOK.name(state, recipe_id)
    dice = Dice(state, "times", recipe_id)
    return {
        "recipe_id": recipe_id,
        "dish": dish,
        "preparation_minutes": dice.integer(10, 45, 5),
        "oven_minutes": dice.integer(15, 70, 5),
        "oven_celsius": dice.integer(160, 230, 10),
    }


@COOKING.tool(
    params={
        "food": INGREDIENT("Name of the food."),
        "grams": integer(1, 5000, 25, words=("grams", "amount", "weight"), usual=(25, 800))("Weight in grams."),
    },
    returns={"food": NAME, "calories": integer(0, 50_000), "protein_g": integer(0, 5000)},
    asks=(
        "How many calories and how much protein are in {grams} grams of {food}?",
        "I ate {grams} g of {food}. What's the nutrition of that?",
        "Nutrition facts for {grams} grams of {food}, please.",
    ),
    reply="{grams} g of {food} have {.calories} calories and {.protein_g} g of protein.",
    vague=("How many calories are in the {food} I just ate?",),
)
def get_nutrition(state: State, food: str, grams: int) -> dict[str, Any]:
    """Calories and protein in a weight of one food."""
    food = known(INGREDIENTS, food, "food", "food")
    dice = Dice(state, "nutrition", food)
    calories, protein = dice.integer(20, 720), dice.integer(1, 32)
    return {"food": food, "calories": round(calories * grams / 100), "protein_g": round(protein * grams / 100)}


@COOKING.tool(
    params={"ingredient": INGREDIENT("Ingredient to replace.")},
    returns={"ingredient": NAME, "substitute": NAME, "percent_of_amount": integer(1, 300)},
    asks=(
        "What can I use instead of {ingredient}?",
        "I've run out of {ingredient}. What replaces it, and how much of it?",
        "Find a substitute for {ingredient}.",
    ),
    reply="Instead of {ingredient} use {.substitute}, {.percent_of_amount} percent of the amount.",
)
def find_substitute(state: State, ingredient: str) -> dict[str, Any]:
    """Ingredient that can replace another one, and how much of it to take."""
    ingredient = known(INGREDIENTS, ingredient, "ingredient", "ingredient")
    dice = Dice(state, "substitute", ingredient)
    group = next(group for group in _ALIKE if ingredient in group)
    substitute = dice.choice([other for other in group if other != ingredient])
    return {"ingredient": ingredient, "substitute": substitute, "percent_of_amount": dice.integer(50, 150, 10)}


@COOKING.tool(
    params={
        "list_name": LISTS("Name of the shopping list."),
        "items": array(text(INGREDIENTS), 1, 12)("Things to buy."),
    },
    returns={"list_name": LISTS, "count": integer(0, 100_000)},
    asks=(
        "Add {items} to my {list_name} shopping list.",
        "Put {items} on the {list_name} shopping list, please.",
    ),
    reply="I added that; number of entries on your {list_name} list: {.count}.",
    vague=("Add {items} to one of my shopping lists.",),
    writes=True,
)
def add_to_shopping_list(state: State, list_name: str, items: list[str]) -> dict[str, Any]:
    """Add things to a named shopping list."""
    entries = table(state, "shopping lists").setdefault(list_name, [])
    entries.extend(item for item in items if item not in entries)
    return {"list_name": list_name, "count": len(entries)}


@COOKING.tool(
    params={"list_name": LISTS("Name of the shopping list.")},
    returns={"list_name": LISTS, "items": array(text(max_length=80), 0, 500)},
    asks=(),
    reply="The {list_name} list holds {.items}.",
)
def read_shopping_list(state: State, list_name: str) -> dict[str, Any]:
    """Everything on a named shopping list."""
    return {"list_name": list_name, "items": list(table(state, "shopping lists").get(list_name, ()))[:500]}


COOKING.recipe(
    ("f", "find_recipe", {"dish": "$dish"}),
    ("i", "get_ingredients", {"recipe_id": "@f.recipe_id", "servings": "$servings"}),
    asks=(
        "What do I need to cook {dish} for {servings} people?",
        "Ingredients for {servings} servings of {dish}, please.",
    ),
    reply="For {servings} servings of {dish} you need {i.items.0.quantity} {i.items.0.unit} of {i.items.0.ingredient}, "
    "{i.items.1.quantity} {i.items.1.unit} of {i.items.1.ingredient} and {i.items.2.quantity} {i.items.2.unit} of "
    "{i.items.2.ingredient}.",
)
COOKING.recipe(
    ("f", "find_recipe", {"dish": "$dish"}),
    ("t", "get_cooking_times", {"recipe_id": "@f.recipe_id"}),
    asks=(
        "How long does {dish} have to be in the oven, and how hot?",
        "What are the preparation and oven times for {dish}?",
    ),
    reply="{dish} takes {t.preparation_minutes} minutes to prepare and {t.oven_minutes} minutes at {t.oven_celsius} "
    "°C.",
)
_ALL_THREE = [f"@i.items.{position}.ingredient" for position in range(3)]
COOKING.recipe(
    ("s", "search_recipes", {"ingredient": "$ingredient", "diet": "$diet"}),
    ("i", "get_ingredients", {"recipe_id": "@s.recipe_id"}),
    ("a", "add_to_shopping_list", {"list_name": "$list_name", "items": _ALL_THREE}),
    asks=(
        "Pick a {diet} recipe with {ingredient} and put all its ingredients on my {list_name} shopping list.",
        "Find something {diet} to cook with {ingredient}, then add every ingredient of it to the {list_name} "
        "shopping list.",
    ),
    reply="I chose {s.dish} and added {i.items.0.ingredient}, {i.items.1.ingredient} and {i.items.2.ingredient}; the "
    "number of entries on your {list_name} list is now {a.count}.",
)
COOKING.recipe(
    ("s", "find_substitute", {"ingredient": "$ingredient"}),
    ("n", "get_nutrition", {"food": "@s.substitute", "grams": "$grams"}),
    asks=(
        "What can I take instead of {ingredient}, and how many calories do {grams} grams of that have?",
        "Find a substitute for {ingredient} and tell me the nutrition of {grams} g of the substitute.",
    ),
    reply="Use {s.substitute} instead of {ingredient}: {grams} g of it have {n.calories} calories and {n.protein_g} "
    "g of "
    "protein.",
)
COOKING.recipe(
    ("a", "add_to_shopping_list", {"list_name": "$list_name", "items": "$items"}),
    ("r", "read_shopping_list", {"list_name": "$list_name"}),
    asks=(
        "Add {items} to my {list_name} shopping list and then read the whole list back to me.",
        "Put {items} on the {list_name} shopping list. What's on it in all after that?",
    ),
    reply="I added that. Your {list_name} list now holds {r.items}.",
    after=("a<r",),
)
COOKING.recipe(
    ("f", "find_recipe", {"dish": "$dish"}),
    ("i", "get_ingredients", {"recipe_id": "@f.recipe_id", "servings": "$servings"}),
    ("t", "get_cooking_times", {"recipe_id": "@f.recipe_id"}),
    asks=(
        "I want to cook {dish} for {servings} people. What do I need, and how hot and how long must the oven be on?",
        "Give me ingredients for {servings} servings of {dish}, and its preparation and oven times.",
    ),
    reply="For {servings} servings of {dish} take {i.items.0.quantity} {i.items.0.unit} of {i.items.0.ingredient}, "
    "{i.items.1.quantity} {i.items.1.unit} of {i.items.1.ingredient} and {i.items.2.quantity} {i.items.2.unit} of "
    "{i.items.2.ingredient}; {t.preparation_minutes} minutes of preparation, {t.oven_minutes} minutes at "
    "{t.oven_celsius} °C.",
)
COOKING.resemble("search_recipes", "find_recipe")
