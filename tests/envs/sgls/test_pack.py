"""The embedded tool pack: schemas, answers, consistency of back ends, speed."""

from __future__ import annotations

import copy
import datetime
import json
import time
from collections import Counter
from random import Random

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from toolcredit.envs.sgls.generation.goals import template_fields
from toolcredit.envs.sgls.pack import (
    DOMAINS,
    NEAR,
    OVERLAPS,
    RECIPES,
    SPECS,
    TOOLS,
    execute,
    new_state,
)
from toolcredit.envs.sgls.pack.base import Dice, Ids, ToolError, known, nearest
from toolcredit.envs.sgls.pack.params import Param, integer
from toolcredit.errors import UnknownNameError

Draft = jsonschema.Draft202012Validator
RESPONSES = {name: Draft(spec.response) for name, spec in SPECS.items()}
PARAMETERS = {name: Draft(spec.parameters) for name, spec in SPECS.items()}


def from_schema(schema: dict) -> st.SearchStrategy:
    """Values that fit the kinds of schemas the pack uses."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kind = schema["type"]
    if kind == "boolean":
        return st.booleans()
    if kind == "integer":
        whole = st.integers(schema["minimum"], schema["maximum"])
        return whole | whole.map(float)
    if kind == "number":
        return st.floats(schema["minimum"], schema["maximum"]) | st.integers(1, 200).filter(
            lambda n: schema["minimum"] <= n <= schema["maximum"]
        )
    if kind == "array":
        return st.lists(from_schema(schema["items"]), min_size=schema["minItems"], max_size=schema["maxItems"])
    if kind == "object":
        required = {key: from_schema(part) for key, part in schema["properties"].items() if key in schema["required"]}
        optional = {key: from_schema(part) for key, part in schema["properties"].items() if key not in required}
        return st.fixed_dictionaries(required, optional=optional)
    if schema.get("format") == "date":
        dates = st.dates(datetime.date(2024, 12, 1), datetime.date(2027, 2, 1)).map(str)
        return dates | st.from_regex(schema["pattern"], fullmatch=True).filter(lambda s: s[-1] != "\n")
    if "pattern" in schema:
        text = st.from_regex(schema["pattern"], fullmatch=True).filter(lambda s: s[-1:] != "\n")
        return text.filter(lambda s: schema.get("minLength", 0) <= len(s) <= schema.get("maxLength", 10_000))
    return st.text(min_size=schema.get("minLength", 0), max_size=schema.get("maxLength", 40))


def test_size():
    assert len(DOMAINS) >= 12
    assert len(TOOLS) >= 60
    assert len(TOOLS) == sum(len(domain.tools) for domain in DOMAINS.values()), "two tools have the same name"
    assert all(len(domain.tools) >= 5 for domain in DOMAINS.values())


@pytest.mark.parametrize("name", TOOLS)
def test_schemas_are_valid_and_closed(name):
    spec = SPECS[name]
    for schema in (spec.parameters, spec.response):
        Draft.check_schema(schema)
        json.dumps(schema, allow_nan=False)
    assert spec.parameters["additionalProperties"] is False
    assert set(spec.parameters["required"]) <= set(spec.parameters["properties"])
    if spec.domain != "basics":
        assert all(part.get("description") for part in spec.parameters["properties"].values())
    assert spec.description.endswith(".") and spec.name == name
    for key, part in spec.parameters["properties"].items():
        assert ("default" not in part) or key not in spec.parameters["required"]
        if "default" in part:
            Draft(part).validate(part["default"])


def test_schemas_are_varied():
    text = json.dumps([spec.parameters for spec in SPECS.values()])
    for keyword in (
        "enum",
        "minimum",
        "pattern",
        "format",
        "default",
        "minItems",
        "maxLength",
        '"object"',
        '"boolean"',
    ):
        assert text.count(keyword) > 1, keyword


def test_openai_form_and_signature():
    spec = SPECS["get_current_weather"]
    form = spec.openai()
    assert form["type"] == "function" and form["function"]["name"] == spec.name
    form["function"]["parameters"]["properties"].clear()
    assert spec.parameters["properties"], "openai() must give a copy"
    assert spec.signature() == "get_current_weather(city, units?)"


@pytest.mark.parametrize("name", TOOLS)
def test_templates_name_what_exists(name):
    tool = TOOLS[name]
    required = set(tool.spec.parameters["required"])
    for ask in (*tool.asks, *tool.rescue):
        assert required <= set(template_fields(ask)) <= set(tool.params), ask
    for ask in tool.vague:
        assert set(template_fields(ask)) < set(tool.params) and not required <= set(template_fields(ask)), ask
    assert len(set(tool.asks)) == len(tool.asks) != 1
    for name in template_fields(tool.reply):
        assert name in tool.params or name.split(".")[1] in tool.returns, name


def test_recipes_name_what_exists():
    for recipe in RECIPES:
        keys: set[str] = set()
        slots = {slot for node in recipe.nodes for slot in node.slots}
        for node in recipe.nodes:
            params = TOOLS[node.tool].params
            assert {p for p, param in params.items() if param.default is ...} <= set(node.bindings) <= set(params)
            assert set(node.sources) <= keys
            keys.add(node.key)
        for ask in recipe.asks:
            assert set(template_fields(ask)) == slots, ask
        assert len(recipe.nodes) > 1 and len(recipe.asks) > 1


def test_relations_are_symmetric():
    for relation in (OVERLAPS, NEAR):
        assert set(relation) == set(TOOLS)
        assert all(one in relation[two] for one in relation for two in relation[one])
    assert OVERLAPS["convert_length"] == {"convert_unit"}


@pytest.mark.parametrize("name", TOOLS)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_answer_fits_its_schema(name, data):
    arguments = data.draw(from_schema(SPECS[name].parameters))
    PARAMETERS[name].validate(arguments)
    state = new_state(data.draw(st.integers(0, 2**31)))
    before = copy.deepcopy(arguments)
    answer = execute(name, arguments, state)
    RESPONSES[name].validate(answer)
    assert arguments == before, "a back end changed its arguments"
    assert json.loads(json.dumps([answer, state], allow_nan=False)) == [answer, state], "not plain JSON"


@pytest.mark.parametrize("name", [name for name in TOOLS if name != "read_note"])  # a note must be written first
def test_usual_arguments_are_answered(name):
    """With what users say most answers are no refusals, and they fit the schema too."""
    tool, rng, good = TOOLS[name], Random(name), 0
    for seed in range(40):
        state = new_state(seed)
        drawn = tool.draw(rng, state) if tool.draw else {}
        arguments = {key: param.sample(rng, state) for key, param in tool.params.items() if param.sample}
        arguments |= drawn
        PARAMETERS[name].validate(arguments)
        answer = tool(arguments, state)
        RESPONSES[name].validate(answer)
        good += "error" not in answer
    assert good >= 10


@pytest.mark.parametrize("name", TOOLS)
def test_same_state_same_answer(name):
    tool, rng = TOOLS[name], Random(name)
    state = new_state(11)
    arguments = {key: param.sample(rng, state) for key, param in tool.params.items() if param.sample}
    if set(tool.spec.parameters["required"]) <= set(arguments):
        first, second = new_state(11), new_state(11)
        assert tool(arguments, first) == tool(arguments, second) and first == second
        assert tool.writes or first == {"seed": 11} or all(not v for k, v in first.items() if k != "seed")


def test_other_seed_other_data():
    found = {execute("find_contact", {"contact": "Adela Abrenz"}, new_state(seed))["contact_id"] for seed in range(20)}
    assert len(found) > 15


def test_names_are_found_whatever_their_case():
    state = new_state(1)
    plain = execute("find_contact", {"contact": "Adela Abrenz"}, state)
    assert execute("find_contact", {"contact": "  adela   ABRENZ "}, state) == plain


def test_unknown_tool():
    with pytest.raises(UnknownNameError, match="get_current_weather"):
        execute("get_curent_weather", {}, new_state(0))


def test_misspelt_name_is_refused_with_the_right_one():
    answer = execute("get_current_weather", {"city": "Valmorra"}, new_state(0))
    assert answer["error"]["code"] == "not_found" and answer["error"]["retry_with"] == {"city": "Valmora"}
    assert "retry_with" not in execute("get_current_weather", {"city": "Xyzzy"}, new_state(0))["error"]


class TestWritesCanBeReadBack:
    def test_event(self):
        state = new_state(5)
        free = execute("find_free_time", {"date": "2025-03-04", "duration_minutes": 30}, state)
        made = execute(
            "create_event", {"title": "x", "date": "2025-03-04", "start": free["start"], "duration_minutes": 30}, state
        )
        assert execute("get_event", {"event_id": made["event_id"]}, state)["title"] == "x"
        assert "x" in execute("list_events", {"date": "2025-03-04"}, state)["titles"]
        refused = execute("create_event", {"title": "y", "date": "2025-03-04", "start": free["start"]}, state)
        later = refused["error"]["retry_with"]["start"]
        assert refused["error"]["code"] == "conflict" and later > free["start"]
        moved = execute("move_event", {"event_id": made["event_id"], "date": "2025-03-05", "start": "22:00"}, state)
        assert moved["start"] == "22:00"
        assert "x" not in execute("list_events", {"date": "2025-03-04"}, state)["titles"]
        execute("cancel_event", {"event_id": made["event_id"]}, state)
        assert execute("get_event", {"event_id": made["event_id"]}, state)["error"]["code"] == "not_found"

    def test_seeded_event_is_cancelled(self):
        state = new_state(5)
        titles = execute("list_events", {"date": "2025-07-01"}, state)["titles"]
        found = execute("find_event", {"title": titles[0], "date": "2025-07-01"}, state)
        execute("cancel_event", {"event_id": found["event_id"]}, state)
        assert execute("list_events", {"date": "2025-07-01"}, state)["titles"] == titles[1:]

    def test_order(self):
        state = new_state(8)
        customer = execute("find_customer", {"customer": "Runa Zeller"}, state)["customer_id"]
        product = execute("find_product", {"product": "steel mug"}, state)["product_id"]
        stock = execute("get_stock_level", {"product_id": product}, state)["in_stock"]
        order = {"customer_id": customer, "items": [{"product_id": product, "quantity": 2}], "ship_to": "Valmora"}
        made = execute("place_order", order, state)
        assert execute("get_stock_level", {"product_id": product}, state)["in_stock"] == stock - 2
        assert execute("list_orders", {"customer_id": customer}, state)["latest_order_id"] == made["order_id"]
        assert execute("track_order", {"order_id": made["order_id"]}, state)["total"] == made["total"]
        assert execute("cancel_order", {"order_id": made["order_id"]}, state)["status"] == "cancelled"
        assert execute("track_order", {"order_id": made["order_id"]}, state)["status"] == "cancelled"
        assert 0 < stock - 2 < 20, "choose a seed with a small stock"
        order["items"][0]["quantity"] = 20
        assert execute("place_order", order, state)["error"]["retry_with"]["items"][0]["quantity"] == stock - 2

    def test_money(self):
        state = new_state(8)
        one, two = (
            execute("find_account", {"owner": owner, "kind": "savings"}, state)["account_id"]
            for owner in ("Runa Zeller", "Edda Varga")
        )
        before = [execute("get_balance", {"account_id": account}, state)["balance"] for account in (one, two)]
        execute("transfer_money", {"from_account": one, "to_account": two, "amount": 100.5}, state)
        after = [execute("get_balance", {"account_id": account}, state)["balance"] for account in (one, two)]
        assert after == [pytest.approx(before[0] - 100.5), pytest.approx(before[1] + 100.5)]

    def test_note_list_weight_ticket(self):
        state = new_state(2)
        note = execute("write_note", {"title": "t", "content": "c"}, state)["note_id"]
        assert execute("read_note", {"note_id": note}, state) == {"note_id": note, "title": "t", "content": "c"}
        execute("add_to_shopping_list", {"list_name": "party", "items": ["milk", "eggs"]}, state)
        assert execute("read_shopping_list", {"list_name": "party"}, state)["items"] == ["milk", "eggs"]
        execute("log_weight", {"date": "2025-02-02", "kilograms": 70.5}, state)
        assert execute("get_weight", {"date": "2025-02-02"}, state)["kilograms"] == 70.5
        project = execute("find_project", {"project": "Project Onyx"}, state)["project_id"]
        ticket = execute("create_ticket", {"project_id": project, "title": "z"}, state)["ticket_id"]
        person = execute("find_employee", {"employee": "Vera Gantry"}, state)["employee_id"]
        execute("assign_ticket", {"ticket_id": ticket, "employee_id": person}, state)
        assert execute("get_ticket", {"ticket_id": ticket}, state)["assignee"] == "Vera Gantry"
        assert ticket in execute("list_tickets", {"project_id": project, "status": "open"}, state)["ticket_ids"]


def test_the_same_thing_is_the_same_in_all_tools():
    state = new_state(77)
    forecast = execute("get_weather_forecast", {"city": "Valmora", "date": "2025-08-01"}, state)
    past = execute("get_past_weather", {"city": "Valmora", "date": "2025-08-01"}, state)
    assert forecast["condition"] == past["condition"]
    assert past["mean_temperature"] == (forecast["high"] + forecast["low"]) / 2
    there = execute("get_distance", {"origin": "Valmora", "destination": "Zandvik"}, state)
    assert there == execute("get_distance", {"origin": "Zandvik", "destination": "Valmora"}, state)
    flight = execute("search_flights", {"origin": "Valmora", "destination": "Zandvik", "date": "2025-08-01"}, state)
    status = execute("get_flight_status", {"flight_id": flight["flight_id"]}, state)
    assert status["departure"] == flight["departure"]
    rate = execute("get_exchange_rate", {"source": "ARN", "target": "TAL"}, state)["rate"]
    assert execute("convert_currency", {"amount": 1000, "source": "ARN", "target": "TAL"}, state)[
        "converted"
    ] == pytest.approx(1000 * rate, rel=1e-3)


def test_physics_and_biology_are_right():
    state = new_state(0)
    mile = {"value": 1, "source": "mile", "target": "kilometre"}
    assert execute("convert_length", mile, state)["result"] == 1.6093
    assert execute("convert_unit", {"quantity": "length", **mile}, state)["result"] == 1.6093
    assert execute("convert_unit", {"quantity": "mass", **mile}, state)["error"]["code"] == "invalid_argument"
    assert (
        execute("convert_temperature", {"value": 100, "source": "celsius", "target": "fahrenheit"}, state)["result"]
        == 212
    )
    assert execute("translate_dna", {"sequence": "ATGGCCTAA"}, state)["protein"] == "MA*"
    assert execute("reverse_complement", {"sequence": "AACG"}, state)["sequence"] == "CGTT"
    assert execute("compute_gc_content", {"sequence": "AACG"}, state)["gc_percent"] == 50
    loan = execute("compute_loan", {"principal": 12_000, "annual_rate": 0, "years": 1}, state)
    assert loan == {"monthly_payment": 1000, "total_interest": 0}


class TestBuildingBlocks:
    @given(st.integers(0, 2**40), st.integers(1, 90_000), st.data())
    def test_ids_are_a_bijection(self, seed, count, data):
        ids, state = Ids("ABC", "thing", count), {"seed": seed}
        index = data.draw(st.integers(0, count - 1))
        assert ids.decode(state, ids.encode(state, index)) == index
        with pytest.raises(ToolError):
            ids.decode(state, ids.fresh(state, "new"))

    def test_dice(self):
        draws = Counter(Dice({"seed": n}, "x").integer(1, 6) for n in range(6000))
        assert set(draws) == {1, 2, 3, 4, 5, 6} and min(draws.values()) > 850
        dice = Dice({"seed": 1}, "many")
        assert [dice.integer(0, 9) for _ in range(40)].count(0) < 20, "the bits of a die must last for dozens of draws"
        assert Dice({"seed": 1}, "A").integer(0, 10**9) == Dice({"seed": 1}, "a").integer(0, 10**9)
        assert Dice({}, "x").integer(3, 9, 3) in (3, 6, 9)
        assert len(set(Dice({}, "y").pick("abcdefghij", 3))) == 3

    def test_known_and_nearest(self):
        assert known(("Ab Cd",), " ab  cd ", "thing", "name") == "Ab Cd"
        assert nearest(("Valmora", "Zandvik"), "x" * 10_000) is None

    def test_renderings(self):
        assert Param({}, "date").renderings("2025-06-03") == ("2025-06-03", "3 June 2025", "June 3, 2025")
        assert Param({}, "date").renderings("2025-99-99") == ("2025-99-99",)
        assert Param({}, "time").renderings("14:30") == ("14:30", "2:30 pm")
        assert Param({}, "time").renderings("00:00") == ("00:00", "12 am")
        assert Param({}, "number").renderings(3) == ("3", "three")
        assert Param({}, "number").renderings(1234.5) == ("1234.5", "1,234.5")
        assert Param({}, "number").renderings(-1200) == ("-1200", "-1,200")

    def test_optional_values_are_never_the_default(self):
        param = integer(1, 3).optional(2)
        assert {param.sample(Random(n), {}) for n in range(50)} == {3}
        assert param.schema["default"] == 2


@pytest.mark.slow
def test_speed():
    """Tens of thousands of calls a second on one core; the bound leaves room for a busy machine."""
    rng, work = Random(0), []
    for tool in TOOLS.values():
        for seed in range(20):
            state = new_state(seed)
            arguments = {key: param.sample(rng, state) for key, param in tool.params.items() if param.sample}
            if set(tool.spec.parameters["required"]) <= set(arguments):
                work.append((tool, arguments, state))
    start = time.process_time()
    for tool, arguments, state in work:
        tool(arguments, state)
    assert len(work) / (time.process_time() - start) > 10_000
