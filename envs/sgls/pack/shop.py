"""Online shop: products, stock, reviews, customers, orders, vouchers."""

from __future__ import annotations

from typing import Any

from .base import Dice, Domain, Ids, Named, State, known, refuse, table
from .params import ALL_DAYS, CITY, DATE, NAME, PERSON, array, enum, identifier, integer, name, number, record, text
from .words import CITIES, PEOPLE, PRODUCTS

SHOP = Domain("shop")

CATALOGUE = Named.of("PRD", "product", PRODUCTS)
CUSTOMERS = Named.of("CUS", "customer", PEOPLE)
ORDERS_EACH = 2
ORDERS = Ids("ORD", "order", len(PEOPLE) * ORDERS_EACH)
PRODUCT_ID = identifier("PRD", CATALOGUE.ids.sample, words=("product", "article"))
CUSTOMER_ID = identifier("CUS", CUSTOMERS.ids.sample, words=("customer",))
ORDER_ID = identifier("ORD", ORDERS.sample, words=("order",))
PRODUCT = name(PRODUCTS, words=("product", "article"))
QUANTITY = integer(1, 20, words=("many", "quantity", "number"))
STATUS = enum("processing", "shipped", "out_for_delivery", "delivered", "cancelled")
REASON = enum(
    "damaged", "wrong_item", "no_longer_needed", say={"no_longer_needed": "no longer needed"}, words=("reason", "why")
)


def _price(state: State, product: str) -> float:
    return Dice(state, "price", product).integer(400, 30_000, 50) / 100


def _stock(state: State, product_id: str) -> int:
    return Dice(state, "stock", product_id).integer(2, 30)


@SHOP.tool(
    params={"product": PRODUCT("Full name of the product.")},
    returns={"product_id": PRODUCT_ID, "product": NAME, "price": number(0, 10_000)},
    asks=(
        "What does the {product} cost in the shop?",
        "Find the product id and the price of the {product}.",
        "How much is a {product} in your online shop?",
    ),
    reply="The {product} ({.product_id}) costs {.price} euros.",
)
def find_product(state: State, product: str) -> dict[str, Any]:
    """Find a product of the shop by name: id and price. Says nothing about stock."""
    product = known(PRODUCTS, product, "product", "product")
    return {"product_id": CATALOGUE.id(state, product), "product": product, "price": _price(state, product)}


@SHOP.tool(
    params={"product_id": PRODUCT_ID("Id of the product, as PRD-12345.")},
    returns={"product_id": PRODUCT_ID, "in_stock": integer(0, 10_000), "restock_on": DATE},
    asks=(
        "How many pieces of product {product_id} are in stock?",
        "Check the stock of {product_id} and when more of it arrives.",
        "Is product {product_id} available, and how many of it?",
    ),
    reply="There are {.in_stock} pieces of {product_id} in stock; more arrive on {.restock_on}.",
)
def get_stock_level(state: State, product_id: str) -> dict[str, Any]:
    """Pieces of a product in stock and the day of the next delivery, by product id."""
    CATALOGUE.name(state, product_id)
    sold = table(state, "sold").get(product_id, 0)
    restock = Dice(state, "restock", product_id).choice(ALL_DAYS)
    return {"product_id": product_id, "in_stock": _stock(state, product_id) - sold, "restock_on": restock}


@SHOP.tool(
    params={"product_id": PRODUCT_ID("Id of the product.")},
    returns={"product_id": PRODUCT_ID, "stars": number(0, 5), "reviews": integer(0, 100_000), "top_complaint": NAME},
    asks=(
        "How do customers rate product {product_id}?",
        "What do reviews complain about with {product_id}, and how many stars does it have?",
        "Summarise the reviews of product {product_id}.",
    ),
    reply="{product_id} has {.stars} stars from {.reviews} reviews; the most frequent complaint is {.top_complaint}.",
)
def get_reviews(state: State, product_id: str) -> dict[str, Any]:
    """Average stars, number of reviews and most frequent complaint for a product, by its id."""
    CATALOGUE.name(state, product_id)
    dice = Dice(state, "reviews", product_id)
    complaint = dice.choice(("slow delivery", "scratched surface", "weak battery", "poor manual", "strong smell"))
    return {
        "product_id": product_id,
        "stars": dice.number(2.1, 4.9),
        "reviews": dice.integer(3, 900),
        "top_complaint": complaint,
    }


@SHOP.tool(
    params={"customer": PERSON("Full name of the customer.")},
    returns={"customer_id": CUSTOMER_ID, "customer": NAME, "loyalty_points": integer(0, 100_000)},
    asks=(
        "How many loyalty points does the customer {customer} have?",
        "What's the customer number of {customer}?",
        "Look up {customer} among our customers.",
    ),
    reply="{customer} is customer {.customer_id} with {.loyalty_points} loyalty points.",
    vague=("How many loyalty points does the customer at the desk have?",),
)
def find_customer(state: State, customer: str) -> dict[str, Any]:
    """Find a customer of the shop by full name: customer id and loyalty points. Gives no orders."""
    customer = known(PEOPLE, customer, "customer", "customer")
    points = Dice(state, "points", customer).integer(0, 5000)
    return {"customer_id": CUSTOMERS.id(state, customer), "customer": customer, "loyalty_points": points}


def _order(state: State, order_id: str) -> dict[str, Any]:
    written = table(state, "orders").get(order_id)
    if written:
        return written
    index = ORDERS.decode(state, order_id)
    dice = Dice(state, "order", index)
    return {
        "order_id": order_id,
        "customer": index // ORDERS_EACH,
        "status": dice.choice(("processing", "shipped", "out_for_delivery", "delivered")),
        "arrives_on": dice.choice(ALL_DAYS),
        "total": dice.integer(900, 90_000, 50) / 100,
    }


@SHOP.tool(
    params={"customer_id": CUSTOMER_ID("Id of the customer, as CUS-12345.")},
    returns={"customer_id": CUSTOMER_ID, "order_ids": array(ORDER_ID, 0, 50), "latest_order_id": ORDER_ID},
    asks=(
        "Which orders has customer {customer_id} placed?",
        "What's the latest order of customer {customer_id}?",
        "List the order numbers of {customer_id}.",
    ),
    reply="Customer {customer_id} has the orders {.order_ids}; the latest is {.latest_order_id}.",
)
def list_orders(state: State, customer_id: str) -> dict[str, Any]:
    """Ids of all orders of a customer and of the latest one, by customer id."""
    customer = CUSTOMERS.ids.decode(state, customer_id)
    orders = [ORDERS.encode(state, customer * ORDERS_EACH + number) for number in range(ORDERS_EACH)]
    orders += [key for key, order in table(state, "orders").items() if order["customer"] == customer][:40]
    orders = list(dict.fromkeys(orders))
    return {"customer_id": customer_id, "order_ids": orders, "latest_order_id": orders[-1]}


@SHOP.tool(
    params={"order_id": ORDER_ID("Id of the order, as ORD-12345.")},
    returns={"order_id": ORDER_ID, "status": STATUS, "arrives_on": DATE, "total": number(0, 1e7)},
    asks=(
        "Where is order {order_id}?",
        "When does order {order_id} arrive, and what's its status?",
        "Track order {order_id}, please.",
    ),
    reply="Order {order_id} is {.status}; its delivery date is {.arrives_on}.",
    vague=("Where is my order?", "When does my parcel from the shop arrive?"),
)
def track_order(state: State, order_id: str) -> dict[str, Any]:
    """Status, expected arrival and total of an order, by its id."""
    order = _order(state, order_id)
    return {key: order[key] for key in ("order_id", "status", "arrives_on", "total")}


@SHOP.tool(
    params={
        "customer_id": CUSTOMER_ID("Id of the customer."),
        "items": array(record("{quantity} of {product_id}", product_id=PRODUCT_ID, quantity=QUANTITY), 1, 6, 2)(
            "Products and quantities."
        ),
        "ship_to": CITY("City of delivery."),
        "note": text(("leave with the neighbour", "ring twice", "deliver after work"))("Note for the driver.").optional(
            None
        ),
    },
    returns={"order_id": ORDER_ID, "total": number(0, 1e7), "arrives_on": DATE},
    asks=(
        "Order {items} for customer {customer_id}, delivered to {ship_to}.",
        'Customer {customer_id} orders {items}; ship to {ship_to} with the note "{note}".',
        "Place an order for {customer_id}: {items}. It goes to {ship_to}.",
    ),
    reply="Order {.order_id} is placed: {.total} euros, arriving in {ship_to} on {.arrives_on}.",
    vague=(
        "Order {items} for customer {customer_id}.",
        "Customer {customer_id} wants to order something to {ship_to}.",
    ),
    rescue=(
        "Order {items} for customer {customer_id} to {ship_to}. If there isn't enough in stock, take as many as "
        "there are.",
        "Place this order for {customer_id}: {items}, to {ship_to}. Reduce it to what is available if need be.",
    ),
    writes=True,
)
def place_order(
    state: State, customer_id: str, items: list[dict[str, Any]], ship_to: str, note: str | None = None
) -> dict[str, Any]:
    """Place an order of products by their ids. Refused with possible quantities if the stock is too small."""
    customer = CUSTOMERS.ids.decode(state, customer_id)
    ship_to = known(CITIES, ship_to, "city", "ship_to")
    sold, total = table(state, "sold"), 0.0
    possible: list[dict[str, Any]] = []
    wanted: dict[str, int] = {}
    for item in items:
        product = CATALOGUE.name(state, item["product_id"])
        wanted[item["product_id"]] = wanted.get(item["product_id"], 0) + item["quantity"]
        left = _stock(state, item["product_id"]) - sold.get(item["product_id"], 0)
        possible.append({"product_id": item["product_id"], "quantity": min(item["quantity"], left)})
        total += _price(state, product) * item["quantity"]
    if len(wanted) < len(items):
        refuse("A product stands twice in the order; give its whole quantity once.")
    if possible != [{"product_id": i["product_id"], "quantity": i["quantity"]} for i in items]:
        more = {"items": possible} if all(item["quantity"] > 0 for item in possible) else {}
        counts = ", ".join(f"{item['quantity']} x {item['product_id']}" for item in possible)
        refuse(f"The stock is too small; available: {counts}.", "unavailable", **more)
    order_id = ORDERS.fresh(state, customer_id, sorted(wanted.items()), len(table(state, "orders")))
    for product_id, quantity in wanted.items():
        sold[product_id] = sold.get(product_id, 0) + quantity
    arrives = Dice(state, "arrives", customer_id, ship_to).choice(ALL_DAYS)
    table(state, "orders")[order_id] = {
        "order_id": order_id,
        "customer": customer,
        "status": "processing",
        "arrives_on": arrives,
        "total": round(total, 2),
    }
    return {"order_id": order_id, "total": round(total, 2), "arrives_on": arrives}


@SHOP.tool(
    params={"order_id": ORDER_ID("Id of the order."), "reason": REASON("Reason of the return.")},
    returns={"order_id": ORDER_ID, "return_id": identifier("RET"), "refund": number(0, 1e7)},
    asks=(
        "I want to return order {order_id}: {reason}.",
        "Start a return of order {order_id}. The reason is: {reason}.",
    ),
    reply="The return of {order_id} is {.return_id}; you get {.refund} euros back.",
    vague=("I want to return order {order_id}.",),
    writes=True,
)
def return_order(state: State, order_id: str, reason: str) -> dict[str, Any]:
    """Start the return of a whole order for a refund, by its id."""
    order = _order(state, order_id)
    return_id = RETURNS.fresh(state, order_id)
    if return_id in table(state, "returns"):
        refuse(f"The order {order_id} is being returned already ({return_id}).", "conflict")
    table(state, "returns")[return_id] = {"order_id": order_id, "reason": reason}
    return {"order_id": order_id, "return_id": return_id, "refund": order["total"]}


@SHOP.tool(
    params={"order_id": ORDER_ID("Id of the order.")},
    returns={"order_id": ORDER_ID, "status": STATUS},
    asks=(
        "Cancel order {order_id}.",
        "I don't want order {order_id} any more. Please stop it before it is sent.",
    ),
    reply="Order {order_id} is {.status}.",
    writes=True,
)
def cancel_order(state: State, order_id: str) -> dict[str, Any]:
    """Cancel an order that has not been sent yet, by its id."""
    order = _order(state, order_id)
    if order["status"] != "processing":
        refuse(f"The order {order_id} is {order['status'].replace('_', ' ')} and cannot be cancelled.", "conflict")
    table(state, "orders")[order_id] = {**order, "status": "cancelled"}
    return {"order_id": order_id, "status": "cancelled"}


RETURNS = Ids("RET", "return", 0)

SHOP.recipe(
    ("p", "find_product", {"product": "$product"}),
    ("s", "get_stock_level", {"product_id": "@p.product_id"}),
    asks=(
        "How many pieces of the {product} are in stock?",
        "Is the {product} available at the shop, and how many of it are there?",
    ),
    reply="There are {s.in_stock} pieces of the {product} ({p.product_id}) in stock.",
)
SHOP.recipe(
    ("p", "find_product", {"product": "$product"}),
    ("r", "get_reviews", {"product_id": "@p.product_id"}),
    asks=(
        "What do customers complain about with the {product}?",
        "How many stars does the {product} have in the shop?",
    ),
    reply="The {product} has {r.stars} stars from {r.reviews} reviews; the usual complaint is {r.top_complaint}.",
)
SHOP.recipe(
    ("c", "find_customer", {"customer": "$customer"}),
    ("l", "list_orders", {"customer_id": "@c.customer_id"}),
    ("t", "track_order", {"order_id": "@l.latest_order_id"}),
    asks=(
        "Where is the latest shop order of {customer}, and when does it arrive?",
        "{customer} asks about the most recent order. What's its status?",
    ),
    reply="The latest order of {customer}, {l.latest_order_id}, is {t.status}; its delivery date is {t.arrives_on}.",
)
SHOP.recipe(
    ("c", "find_customer", {"customer": "$customer"}),
    ("l", "list_orders", {"customer_id": "@c.customer_id"}),
    ("r", "return_order", {"order_id": "@l.latest_order_id", "reason": "$reason"}),
    asks=(
        "{customer} wants to send back the latest order ({reason}). Start the return.",
        "Return the most recent order of {customer}; reason: {reason}.",
    ),
    reply="The return {r.return_id} of {customer}'s order {r.order_id} is started; {r.refund} euros will be refunded.",
)
SHOP.recipe(
    ("p", "find_product", {"product": "$product"}),
    ("c", "find_customer", {"customer": "$customer"}),
    (
        "o",
        "place_order",
        {
            "customer_id": "@c.customer_id",
            "items": [{"product_id": "@p.product_id", "quantity": "$quantity"}],
            "ship_to": "$ship_to",
        },
    ),
    asks=(
        "{customer} orders {quantity} pieces of the {product}, to be sent to {ship_to}. Place the order.",
        "Place an order for {customer}: {product}, quantity {quantity}, delivery to {ship_to}.",
    ),
    reply="{customer}'s order {o.order_id} ({quantity} of the {product}) is placed: {o.total} euros, arriving on "
    "{o.arrives_on}.",
)
SHOP.recipe(
    ("p", "find_product", {"product": "$product"}),
    ("q", "find_product", {"product": "$other_product"}),
    ("r", "get_reviews", {"product_id": "@p.product_id"}),
    ("s", "get_reviews", {"product_id": "@q.product_id"}),
    asks=(
        "Which is rated better, the {product} or the {other_product}? Give me the stars of both.",
        "Compare the customer reviews of the {product} and the {other_product}.",
    ),
    reply="The {product} has {r.stars} stars from {r.reviews} reviews, the {other_product} {s.stars} stars from "
    "{s.reviews}.",
)
SHOP.recipe(
    ("p", "find_product", {"product": "$product"}),
    ("s", "get_stock_level", {"product_id": "@p.product_id"}),
    ("r", "get_reviews", {"product_id": "@p.product_id"}),
    asks=(
        "How many pieces of the {product} are in stock, and how many stars do customers give it?",
        "I consider buying the {product}. Tell me its price, what is in stock and how it is rated.",
    ),
    reply="The {product} costs {p.price} euros; {s.in_stock} pieces are in stock, and it has {r.stars} stars.",
)
SHOP.resemble("cancel_order", "return_order", "track_order")
