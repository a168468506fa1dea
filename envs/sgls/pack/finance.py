"""Finance: exchange rates, shares, loans, accounts and transfers."""

from __future__ import annotations

from typing import Any

from .base import Dice, Domain, Ids, Named, State, day, known, refuse, table
from .params import DATE, NAME, PERSON, enum, identifier, integer, name, number
from .words import COMPANIES, PEOPLE

FINANCE = Domain("finance")

#: invented currencies and how many of them one unit of account buys, roughly
CURRENCIES = {"ARN": 1.0, "BLM": 7.4, "CRO": 0.85, "DOR": 118.0, "FLN": 4.2, "KRA": 10.6, "LIR": 1.6, "TAL": 22.5}
CURRENCY = enum(*CURRENCIES, words=("currency",))
AMOUNT = number(0.01, 1_000_000, 0.5, words=("amount", "money", "sum"), usual=(1, 5000))
TICKERS = {company: company[:2].upper() + company.split()[1][:2].upper() for company in COMPANIES}
_COMPANY = {ticker: company for company, ticker in TICKERS.items()}
TICKER = enum(*_COMPANY, words=("ticker", "share", "symbol", "stock", "company"))
KINDS = ("checking", "savings", "business")
ACCOUNTS = Ids("ACC", "account", len(PEOPLE) * len(KINDS))
ACCOUNT_ID = identifier("ACC", ACCOUNTS.sample, words=("account",))
TRANSFERS = Ids("TRF", "transfer", 0)
OWNERS = Named.of("OWN", "account owner", PEOPLE)


def _rate(state: State, source: str, target: str) -> float:
    """Units of `target` for one of `source`; the reverse is its exact inverse before rounding."""
    values = [CURRENCIES[code] * Dice(state, "currency", code).integer(900, 1100) for code in (source, target)]
    return values[1] / values[0]


@FINANCE.tool(
    params={"source": CURRENCY("Currency that is given."), "target": CURRENCY("Currency that is received.")},
    returns={"source": NAME, "target": NAME, "rate": number(0, 1e6)},
    asks=(
        "What is the exchange rate from {source} to {target}?",
        "How many {target} do I get for 1 {source}?",
        "Quote the {source}/{target} rate, please.",
    ),
    reply="One {source} is worth {.rate} {target}.",
    vague=("What's the exchange rate for {source}?",),
)
def get_exchange_rate(state: State, source: str, target: str) -> dict[str, Any]:
    """Exchange rate between two currencies: units of the target for one of the source."""
    if source == target:
        refuse("Source and target are the same currency.")
    return {"source": source, "target": target, "rate": round(_rate(state, source, target), 4)}


@FINANCE.tool(
    params={
        "amount": AMOUNT("Amount in the source currency."),
        "source": CURRENCY("Currency that is given."),
        "target": CURRENCY("Currency that is received."),
    },
    returns={"amount": number(0, 2e6), "converted": number(0, 1e10)},
    asks=(
        "Convert {amount} {source} to {target}.",
        "How much are {amount} {source} in {target}?",
        "I have {amount} {source}. What is that in {target}?",
    ),
    reply="{amount} {source} are {.converted} {target}.",
    vague=("Convert {amount} {source} for me, please.", "How much are my {source} in {target}?"),
)
def convert_currency(state: State, amount: float, source: str, target: str) -> dict[str, Any]:
    """Convert an amount of money from one currency to another."""
    if source == target:
        refuse("Source and target are the same currency.")
    return {"amount": amount, "converted": round(amount * _rate(state, source, target), 2)}


@FINANCE.tool(
    params={"company": name(COMPANIES, words=("company", "firm", "name"))("Full name of the company.")},
    returns={"company": NAME, "ticker": TICKER, "exchange": enum("North", "South", "Harbour")},
    asks=(
        "What is the ticker of {company}?",
        "Under which symbol are shares of {company} traded, and on which exchange?",
        "Find the stock symbol for {company}.",
    ),
    reply="{company} is traded as {.ticker} on the {.exchange} exchange.",
)
def find_ticker(state: State, company: str) -> dict[str, Any]:
    """Find the stock symbol of a company. Gives no price."""
    company = known(COMPANIES, company, "company", "company")
    return {
        "company": company,
        "ticker": TICKERS[company],
        "exchange": Dice(state, company).choice(("North", "South", "Harbour")),
    }


@FINANCE.tool(
    params={"ticker": TICKER("Stock symbol.")},
    returns={"ticker": TICKER, "price": number(0, 10_000), "change_percent": number(-100, 1000)},
    asks=(
        "What is {ticker} trading at?",
        "Give me the current share price of {ticker}.",
        "How is {ticker} doing today: price and change?",
    ),
    reply="{ticker} is at {.price}, a change of {.change_percent} percent today.",
    vague=("What is that share trading at right now?",),
)
def get_stock_price(state: State, ticker: str) -> dict[str, Any]:
    """Current price of a share and today's change in percent, by its symbol."""
    dice = Dice(state, "stock", ticker)
    return {"ticker": ticker, "price": dice.number(4, 480, 2), "change_percent": dice.number(-6, 6)}


@FINANCE.tool(
    params={"ticker": TICKER("Stock symbol."), "date": DATE("Trading day, YYYY-MM-DD.")},
    returns={"ticker": TICKER, "date": DATE, "open": number(0, 20_000), "close": number(0, 20_000)},
    asks=(
        "At what price did {ticker} close on {date}?",
        "Look up the opening and closing price of {ticker} on {date}.",
        "How did {ticker} open and close on {date}?",
    ),
    reply="On {date} {ticker} opened at {.open} and closed at {.close}.",
    vague=("At what price did {ticker} close back then?",),
)
def get_stock_history(state: State, ticker: str, date: str) -> dict[str, Any]:
    """Opening and closing price of a share on a past trading day."""
    day(date)
    price = Dice(state, "stock", ticker).number(4, 480, 2)
    dice = Dice(state, "history", ticker, date)
    start = round(price * dice.number(0.7, 1.3, 3), 2)
    return {"ticker": ticker, "date": date, "open": start, "close": round(start * dice.number(0.95, 1.05, 3), 2)}


@FINANCE.tool(
    params={"ticker": TICKER("Stock symbol.")},
    returns={"ticker": TICKER, "dividend_per_share": number(0, 100), "pay_date": DATE},
    asks=(
        "What dividend does {ticker} pay, and when?",
        "When is the next dividend of {ticker} paid?",
        "Tell me the dividend per share of {ticker}.",
    ),
    reply="{ticker} pays {.dividend_per_share} per share on {.pay_date}.",
)
def get_dividend(state: State, ticker: str) -> dict[str, Any]:
    """Next dividend of a share and the day it is paid."""
    dice = Dice(state, "dividend", ticker)
    pay_date = f"2026-{dice.integer(1, 12):02}-{dice.integer(1, 28):02}"
    return {"ticker": ticker, "dividend_per_share": dice.number(0.1, 9, 2), "pay_date": pay_date}


@FINANCE.tool(
    params={
        "principal": integer(1000, 2_000_000, 500, words=("amount", "principal", "borrow"), usual=(5000, 600_000))(
            "Amount borrowed."
        ),
        "annual_rate": number(0, 20, 0.25, words=("rate", "interest"))("Yearly interest in percent."),
        "years": integer(1, 40, words=("years", "long", "term"))("Term in years."),
    },
    returns={"monthly_payment": number(0, 1e7), "total_interest": number(0, 1e8)},
    asks=(
        "What is the monthly payment on a loan of {principal} at {annual_rate} percent over {years} years?",
        "I borrow {principal} for {years} years at {annual_rate} % a year. What do I pay each month?",
        "Work out a loan over {years} years: {principal} at {annual_rate} percent interest.",
    ),
    reply="You would pay {.monthly_payment} a month, and {.total_interest} of interest in all.",
    vague=(
        "What is the monthly payment on a loan of {principal} over {years} years?",
        "What do I pay each month if I borrow {principal} at {annual_rate} percent?",
    ),
)
def compute_loan(state: State, principal: int, annual_rate: float, years: int) -> dict[str, Any]:
    """Monthly payment and total interest of a loan that is paid off in equal monthly parts."""
    months, rate = years * 12, annual_rate / 1200
    payment = principal / months if rate < 1e-9 else principal * rate / (1 - (1 + rate) ** -months)
    return {"monthly_payment": round(payment, 2), "total_interest": max(0.0, round(payment * months - principal, 2))}


@FINANCE.tool(
    params={
        "owner": PERSON("Full name of the account's owner."),
        "kind": enum(*KINDS, words=("kind", "type"))("Kind of the account."),
    },
    returns={"account_id": ACCOUNT_ID, "owner": NAME, "opened": DATE},
    asks=(
        "What is the id of {owner}'s {kind} account?",
        "Find the {kind} account of {owner}.",
        "When was the {kind} account of {owner} opened, and what's its id?",
    ),
    reply="The {kind} account of {owner} is {.account_id}, opened on {.opened}.",
    vague=("Find the id of the {kind} account for me.",),
)
def find_account(state: State, owner: str, kind: str) -> dict[str, Any]:
    """Find the account of a person by owner and kind: its id and opening day. Gives no balance."""
    index = OWNERS.ids.decode(state, OWNERS.id(state, owner, "owner"))
    account_id = ACCOUNTS.encode(state, index * len(KINDS) + KINDS.index(kind))
    dice = Dice(state, "opened", account_id)
    opened = f"{dice.integer(2010, 2024)}-{dice.integer(1, 12):02}-{dice.integer(1, 28):02}"
    return {"account_id": account_id, "owner": PEOPLE[index], "opened": opened}


def _balance(state: State, account_id: str) -> float:
    ACCOUNTS.decode(state, account_id)
    seeded = Dice(state, "balance", account_id).number(5200, 90_000, 2)
    return round(seeded + table(state, "transfers").get(account_id, 0.0), 2)


@FINANCE.tool(
    params={"account_id": ACCOUNT_ID("Id of the account, as ACC-12345.")},
    returns={"account_id": ACCOUNT_ID, "balance": number(-1e9, 1e9)},
    asks=(
        "What's the balance of account {account_id}?",
        "How much money is on {account_id}?",
        "Check the balance of {account_id}, please.",
    ),
    reply="The balance of account {account_id} is {.balance}.",
    vague=("How much money is on the account?",),
)
def get_balance(state: State, account_id: str) -> dict[str, Any]:
    """Balance of an account, by its id."""
    return {"account_id": account_id, "balance": _balance(state, account_id)}


@FINANCE.tool(
    params={
        "from_account": ACCOUNT_ID("Id of the account that pays."),
        "to_account": ACCOUNT_ID("Id of the account that receives."),
        "amount": AMOUNT("Amount of money."),
    },
    returns={"transfer_id": identifier("TRF"), "amount": number(0, 1e6), "new_balance": number(-1e9, 1e9)},
    asks=(
        "Transfer {amount} from {from_account} to {to_account}.",
        "Please send {amount} from account {from_account} to account {to_account}.",
    ),
    reply="I transferred {.amount} to {to_account} ({.transfer_id}); {from_account} now holds {.new_balance}.",
    vague=(
        "Transfer some money from {from_account} to {to_account}.",
        "Transfer {amount} from {from_account}, please.",
    ),
    writes=True,
)
def transfer_money(state: State, from_account: str, to_account: str, amount: float) -> dict[str, Any]:
    """Transfer money between two accounts, by their ids."""
    before = _balance(state, from_account)
    _balance(state, to_account)
    if from_account == to_account:
        refuse("Both accounts are the same.")
    if amount > before:
        refuse(f"The account {from_account} holds only {before}.", "unavailable")
    changes = table(state, "transfers")
    transfer_id = TRANSFERS.fresh(state, from_account, to_account, amount, changes.get(from_account, 0))
    changes[from_account] = changes.get(from_account, 0.0) - amount
    changes[to_account] = changes.get(to_account, 0.0) + amount
    return {"transfer_id": transfer_id, "amount": amount, "new_balance": _balance(state, from_account)}


FINANCE.recipe(
    ("t", "find_ticker", {"company": "$company"}),
    ("p", "get_stock_price", {"ticker": "@t.ticker"}),
    asks=(
        "What is the current share price of {company}?",
        "How are shares of {company} doing today?",
        "Look up the symbol of {company} and tell me what a share costs.",
    ),
    reply="{company} ({t.ticker}) trades at {p.price}, a change of {p.change_percent} percent today.",
)
FINANCE.recipe(
    ("t", "find_ticker", {"company": "$company"}),
    ("d", "get_dividend", {"ticker": "@t.ticker"}),
    asks=(
        "When does {company} pay its next dividend, and how much?",
        "What dividend can shareholders of {company} expect?",
    ),
    reply="{company} ({t.ticker}) pays {d.dividend_per_share} per share on {d.pay_date}.",
)
FINANCE.recipe(
    ("t", "find_ticker", {"company": "$company"}),
    ("h", "get_stock_history", {"ticker": "@t.ticker", "date": "$date"}),
    ("d", "get_dividend", {"ticker": "@t.ticker"}),
    asks=(
        "For {company} I need two things: how the share opened and closed on {date}, and the next dividend.",
        "Report on {company}: opening and closing price on {date}, plus the coming dividend per share.",
    ),
    reply="{company} ({t.ticker}) opened at {h.open} and closed at {h.close} on {date}; the next dividend is "
    "{d.dividend_per_share} per share.",
)
FINANCE.recipe(
    ("a", "find_account", {"owner": "$owner", "kind": "$kind"}),
    ("b", "get_balance", {"account_id": "@a.account_id"}),
    asks=(
        "How much money does {owner} have on the {kind} account?",
        "What's the balance of {owner}'s {kind} account?",
    ),
    reply="The {kind} account of {owner} ({a.account_id}) holds {b.balance}.",
)
FINANCE.recipe(
    ("a", "find_account", {"owner": "$payer", "kind": "checking"}),
    ("b", "find_account", {"owner": "$payee", "kind": "checking"}),
    ("t", "transfer_money", {"from_account": "@a.account_id", "to_account": "@b.account_id", "amount": "$amount"}),
    asks=(
        "Transfer {amount} from the checking account of {payer} to that of {payee}.",
        "{payer} owes {payee} {amount}. Please move the money between their checking accounts.",
    ),
    reply="{t.amount} went from {payer} to {payee} ({t.transfer_id}); {payer} now has {t.new_balance}.",
)
FINANCE.recipe(
    ("t", "find_ticker", {"company": "$company"}),
    ("p", "get_stock_price", {"ticker": "@t.ticker"}),
    ("c", "convert_currency", {"amount": "@p.price", "source": "ARN", "target": "$target"}),
    asks=(
        "What does one share of {company} cost in {target}? Prices are quoted in ARN.",
        "Find today's price of a {company} share, which is in ARN, and convert it to {target}.",
    ),
    reply="A share of {company} ({t.ticker}) costs {p.price} ARN, which is {c.converted} {target}.",
)
FINANCE.recipe(
    ("a", "find_account", {"owner": "$owner", "kind": "checking"}),
    ("b", "get_balance", {"account_id": "@a.account_id"}),
    ("c", "convert_currency", {"amount": "@b.balance", "source": "$source", "target": "$target"}),
    asks=(
        "How much is on {owner}'s checking account, which is kept in {source}, expressed in {target}?",
        "{owner}'s checking account is in {source}. Give me its balance in {target}.",
    ),
    reply="{owner} has {b.balance} {source}, which is {c.converted} {target}.",
)
FINANCE.recipe(
    ("t", "find_ticker", {"company": "$company"}),
    ("u", "find_ticker", {"company": "$other_company"}),
    ("p", "get_stock_price", {"ticker": "@t.ticker"}),
    ("q", "get_stock_price", {"ticker": "@u.ticker"}),
    asks=(
        "Compare today's share prices of {company} and {other_company}.",
        "Which share costs more right now, that of {company} or that of {other_company}? Give me both prices.",
    ),
    reply="{company} ({t.ticker}) trades at {p.price}, {other_company} ({u.ticker}) at {q.price}.",
)
FINANCE.overlap("get_exchange_rate", "convert_currency")
FINANCE.resemble("get_stock_price", "get_stock_history")
