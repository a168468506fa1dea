import json
import time

import pytest
from toolcredit.errors import ConfigError, UnknownNameError
from toolcredit.rewards.chat_judge import ChatJudge, read_opinion
from toolcredit.rewards.claims import read_claims
from toolcredit.rewards.embedded_judge import EmbeddedJudge
from toolcredit.rewards.judging import Case, Rating
from toolcredit.rewards.language import differs, language, script
from toolcredit.rewards.summary import FunctionJudge, make_judge, summary_score


def fact(key, value, kind="text", variants=(), tool="get_flight"):
    return {"key": key, "value": value, "kind": kind, "variants": variants or (str(value),), "tool": tool}


FLIGHT = {"tool": "get_flight", "arguments": {"city": "Tarrow"}, "answer": {
    "flight_id": "FLT-20417", "airline": "Boreal Wings", "date": "2026-03-07", "departs": "20:30", "price": 1240.5,
    "seats": 3, "temperature": -6}}  # fmt: skip
FACTS = (
    fact("flight_id", "FLT-20417", "name"),
    fact("date", "2026-03-07", "date", ("2026-03-07", "7 March 2026")),
    fact("departs", "20:30", "time", ("20:30", "8:30 pm")),
    fact("price", 1240.5, "number", ("1240.5", "1,240.5")),
)
QUESTION = "When does the next flight to Tarrow leave, and what does it cost?"
GOOD = "The next flight to Tarrow is FLT-20417 on 7 March 2026 at 20:30; it costs 1,240.50 euros."


def case(reply, facts=FACTS, answers=(FLIGHT,), question=QUESTION, **more):
    return Case(question, tuple(answers), reply, tuple(facts), **more)


def rate(reply, **parts):
    return EmbeddedJudge()(case(reply, **parts))


# --- the embedded judge


def test_a_reply_that_says_all_and_nothing_else_gets_five_points():
    assert rate(GOOD) == Rating(5)


@pytest.mark.parametrize(
    "reply",
    [
        "Flight FLT-20417 leaves on March 7, 2026 at 8:30 pm and costs 1240.5 euros.",
        "It is FLT-20417 (Boreal Wings): 2026-03-07, 8:30 p.m., EUR 1,240.50.",
        "**Your flight**\n\n- Number: FLT-20417\n- Date: March 7\n- Departure: 20:30\n- Price: 1240.50 €",
        "The flight flt-20417 leaves on the 7th of March 2026 at 20:30. The price is 1,240.5.",
    ],
)
def test_other_notations_of_the_same_facts_are_taken(reply):
    reply = reply.replace("7th of March", "7th of March")
    assert rate(reply).points == 5


@pytest.mark.parametrize(
    ("reply", "points", "reason"),
    [
        ("Flight FLT-20417 leaves on 7 March 2026 at 20:30.", 4, "not stated: price (1240.5)"),
        ("Flight FLT-20417 costs 1240.50 euros.", 3, "not stated: date"),
        ("Your flight is FLT-20417, have a good trip.", 2, "not stated: price"),
        ("Your flight leaves soon, have a good trip.", 1, "not stated: flight_id"),
        (GOOD.replace("1,240.50", "990"), 3, "neither the user nor a tool said: 990"),
        (GOOD.replace("20417", "20418"), 3, "neither the user nor a tool said: flt-20418"),
        (GOOD + " The gate opens at 19:45.", 4, "said: 19:45"),
        (GOOD + " It returns on 2026-03-09.", 4, "said: 2026-03-09"),
        (GOOD + " Ask Kaia Gantry for help, or call 555.", 3, "said: Gantry"),
        ("Der Flug ist FLT-20417 am 2026-03-07 um 20:30 und kostet 1240.5 Euro, das ist nicht viel.", 4, "language"),
        (GOOD + ' {"price": 1240.5}', 4, "raw data"),
        (GOOD + " And so on." * 200, 4, "far too long"),
    ],
)  # fmt: skip
def test_every_missing_point_has_its_reason(reply, points, reason):
    rating = rate(reply)
    assert rating.points == points
    assert any(reason in text for text in rating.reasons)


def test_the_rating_never_falls_below_one():
    assert rate("Zahlen: 1, 2, 3, 4, 99, 98. Das ist nicht die Antwort und nicht der Flug." * 60).points == 1


def test_the_sign_of_a_number_counts_unless_words_say_it():
    cold = (fact("temperature", -6, "number", ("-6",)),)
    assert rate("It is -6 degrees in Tarrow.", facts=cold).points == 5
    assert rate("It is 6 degrees below zero in Tarrow.", facts=cold).points == 5
    assert rate("It is 6 degrees warm in Tarrow.", facts=cold).points == 1


def test_roundings_are_no_inventions_and_close_ones_state_the_value():
    price = (fact("price", 1240.5, "number", ("1240.5",)),)
    assert rate("The flight costs 1,240 euros or so.", facts=price).points == 5
    rough = (fact("share", 12.34, "number", ("12.34",)),)
    answer = {"tool": "get_flight", "arguments": {}, "answer": {"share": 12.34}}
    assert rate("The share is about 12 percent.", facts=rough, answers=[answer]) == Rating(
        1, ("not stated: share (12.34)",)
    )


def test_what_the_user_said_and_counts_may_be_repeated():
    listed = {"tool": "find", "arguments": {}, "answer": {"items": ["Amber Hall", "Cedar Court"]}}
    facts = (fact("items", "Amber Hall", "name", tool="find"), fact("items", "Cedar Court", "name", tool="find"))
    reply = "For your eleven guests there are 2 halls:\n1. Amber Hall\n2. Cedar Court"
    assert rate(reply, facts=facts, answers=[listed], question="Where can 11 guests meet?").points == 5


def test_facts_are_those_of_the_answers_that_the_agent_got():
    """Other arguments, other answers: a faithful report of them is a good report."""
    other = {**FLIGHT, "answer": {**FLIGHT["answer"], "price": 77, "flight_id": "FLT-00001"}}
    reply = "Flight FLT-00001 leaves on 7 March 2026 at 20:30 and costs 77 euros."
    assert rate(reply, answers=[other]).points == 5
    assert rate(GOOD, answers=[other]).points == 1  # half of it is stated, and two things are invented


def test_without_the_answers_a_reply_cannot_be_good():
    elsewhere = {"tool": "get_weather", "arguments": {}, "answer": {"sky": "clear"}}
    assert rate("I could not find out when the flight leaves.", answers=[elsewhere]).points == 2
    assert rate(GOOD, answers=[elsewhere]).points == 1
    partly = {**FLIGHT, "answer": {"flight_id": "FLT-20417", "date": "2026-03-07"}}
    assert rate("Flight FLT-20417 leaves on 7 March 2026.", answers=[partly]).points == 3
    refused = {**FLIGHT, "answer": {"error": {"code": "not_found", "message": "There is no flight at 20:30."}}}
    assert rate("There is no flight at 20:30, I am afraid.", answers=[refused]).points == 2


def test_refusals_and_questions_back():
    refusal = (fact("refusal", "cannot", "text", ("cannot", "no tool"), tool=None),)
    assert rate("I am sorry, I cannot book that.", facts=refusal, answers=(), abstains=True).points == 5
    assert rate("Your flight is booked, have fun.", facts=refusal, answers=(), abstains=True).points == 1
    assert rate("I cannot book flight 4711.", facts=refusal, answers=(), abstains=True).points == 4
    missing = (fact("date", "day of departure", "text", ("date", "day"), tool=None),)
    asked = {"facts": missing, "answers": (), "abstains": True, "asks": True}
    assert rate("On which day do you want to leave?", **asked).points == 5
    assert rate("I took the first day that there is.", **asked).points == 1


def test_without_facts_there_is_no_rating():
    rating = rate(GOOD, facts=())
    assert rating.points is None and "chat judge" in rating.reasons[0]


def test_numbers_inside_other_tokens_state_nothing():
    seats = (fact("seats", 3, "number", ("3", "three")),)
    assert rate("The flight is FLT-20413 in terminal B3.", facts=seats).points == 1
    assert rate("There are three seats left, I think.", facts=seats).points == 5


def test_the_solved_verdict_looks_at_the_answers_alone():
    judge = EmbeddedJudge()
    assert judge.solved(case("")).solved is True
    verdict = judge.solved(case(GOOD, answers=[{**FLIGHT, "answer": {**FLIGHT["answer"], "price": 1}}]))
    assert verdict.solved is False and verdict.reasons == ("no tool answered price = 1240.5",)
    assert judge.solved(case("", answers=(), abstains=True)).solved is True
    assert judge.solved(case("", abstains=True)).solved is False
    assert judge.solved(case("", facts=())).solved is None


# --- claims and languages


def test_claims_of_a_text():
    claims = read_claims(
        "On 2026-03-07, 5 April 1961 and May 9, at 8:30 pm or 06:45 or 7 am, 1,240.50 euros (-6 °C, 350mg, 44%) for "
        "PRD-76955, proposal_q3.docx and 063-334930 went to Kaia Gantry and the Hotel."
    )
    assert claims.dates == {"2026-03-07", "1961-04-05", "-----05-09"}
    assert claims.times == {("20:30",), ("06:45", "18:45"), ("07:00",)}
    assert claims.numbers == {(1240.5, 2), (-6.0, 0), (350.0, 0), (44.0, 0)}
    assert claims.codes == {"prd-76955", "proposal_q3.docx", "063-334930"}
    assert claims.names == ("Kaia", "Gantry", "Hotel")


def test_ordinary_capitals_are_no_names():
    text = "# Your Flight\n**Price and Date:**\nIt is late. You may go. OK? I think UTC is fine: See Monday's mail."
    assert read_claims(text).names == ()


def test_impossible_dates_and_times_stay_numbers():
    claims = read_claims("2026-02-30 and 25:61 and 31 February 2026")
    assert not claims.dates and not claims.times


@pytest.mark.parametrize("text", ["a.a." * 50_000, "1,000" * 40_000, "9" * 200_000, "12:" * 60_000, "A b " * 50_000])
def test_reading_claims_is_linear(text):
    start = time.process_time()
    read_claims(text)
    assert time.process_time() - start < 5


def test_hostile_replies_and_answers_are_judged_in_time():
    numbers = {"tool": "get_flight", "arguments": {}, "answer": {"all": list(range(50_000))}}
    start = time.process_time()
    for reply in (" ".join(f"{n}.5" for n in range(30_000)), "FLT-20417 " * 13_000, "A1-" * 40_000, "\x00" * 130_000):
        assert rate(reply, answers=[FLIGHT, numbers]).points == 1
    assert time.process_time() - start < 10


def test_languages_and_scripts():
    assert language("What does the flight to Tarrow cost, and when is it?") == "English"
    assert language("Was kostet der Flug nach Tarrow und wann ist er?") == "German"
    assert language("Tarrow 77") is None
    assert (script("Привет мир"), script("東京は晴れです"), script("123")) == ("CYRILLIC", "CJK", None)
    assert differs("Это хорошо", "Is it good?") and not differs("FLT-20417", "Is it good?")
    assert not differs("Boreal Wings 20:30", "When does the flight to the city leave?")


# --- the score


def test_the_score_of_each_rating():
    for points in range(1, 6):
        assert summary_score(case(GOOD), FunctionJudge(lambda _, p=points: p)).score == (points - 1) / 4


def test_no_response_or_a_short_reply_scores_0_without_the_judge():
    def never(_):
        raise AssertionError

    judge = FunctionJudge(never)
    assert summary_score(case(GOOD, answers=()), judge).score == 0.0
    assert summary_score(case(" 20:30  \n  "), judge).score == 0.0
    assert summary_score(case("I cannot do it.", answers=(), abstains=True), judge, mode="paper").score == 0.0
    assert "no tool responded" in summary_score(case(GOOD, answers=()), judge).reasons


def test_abstention_is_judged_by_default():
    judge = FunctionJudge(lambda seen: 5 if seen.abstains else 1)
    assert summary_score(case("I cannot do it.", answers=(), abstains=True), judge).score == 1.0


def test_a_judge_without_opinion_gives_none():
    score = summary_score(case(GOOD), FunctionJudge(lambda _: Rating(None, ("down",))))
    assert (score.score, score.points, score.reasons) == (None, None, ("down",))


@pytest.mark.parametrize("said", [0, 6, 2.5, True, "5"])
def test_functions_must_keep_to_the_scale(said):
    with pytest.raises(ConfigError, match="expected 1, 2, 3, 4, 5 or None"):
        FunctionJudge(lambda _: said)(case(GOOD))


# --- noise


def test_noise_replaces_ratings_with_its_probability_and_uniformly():
    judge = make_judge("embedded", noise=0.5, seed=1)
    cases = [case(GOOD, nonce=nonce) for nonce in range(2_000)]
    points = [judge(one).points for one in cases]
    assert [judge(one).points for one in cases] == points
    replaced = 2_000 * 0.5
    for value in (1, 2, 3, 4):
        assert points.count(value) == pytest.approx(replaced / 5, abs=50)
    assert points.count(5) == pytest.approx(replaced + replaced / 5, abs=70)
    assert points != [make_judge("embedded", noise=0.5, seed=2)(one).points for one in cases]


def test_noise_of_0_and_1_and_of_no_opinion():
    assert isinstance(make_judge("embedded", noise=0.0), EmbeddedJudge)
    always = make_judge("embedded", noise=1.0)
    assert {always(case(GOOD, nonce=n)).points for n in range(100)} == {1, 2, 3, 4, 5}
    assert always(case(GOOD, facts=())).points is None
    assert always.identity == {"judge": "embedded", "version": "1", "noise": 1.0, "noise_seed": 0}


# --- judges by name


def strict(seen):
    return 2


class Lenient:
    identity = {"judge": "lenient"}

    def __init__(self, points=5):
        self.points = points

    def __call__(self, seen):
        return Rating(self.points)


def test_judges_by_name_and_object(monkeypatch):
    import sys
    import types

    module = types.ModuleType("somebodys_judges")
    module.strict, module.Lenient = strict, Lenient
    monkeypatch.setitem(sys.modules, "somebodys_judges", module)
    assert make_judge("somebodys_judges:strict")(case(GOOD)).points == 2
    assert make_judge({"name": "somebodys_judges:Lenient", "points": 4})(case(GOOD)).points == 4
    assert make_judge(Lenient())(case(GOOD)).points == 5
    assert make_judge(strict).identity == {"judge": "function", "name": "strict"}


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ("embeded", UnknownNameError, "did you mean 'embedded'"),
        ("nowhere.at_all:judge", ConfigError, "cannot be made"),
        ({"name": "embedded", "strictness": 3}, ConfigError, "cannot be made"),
        (7, ConfigError, "expected a name"),
        ({"name": "chat"}, ConfigError, "cannot be made"),
    ],
)
def test_unusable_judges_are_refused(spec, error, message):
    with pytest.raises(error, match=message):
        make_judge(spec)


@pytest.mark.parametrize("noise", [-0.1, 1.1, float("nan"), "0.5", True])
def test_noise_must_be_a_probability(noise):
    with pytest.raises(ConfigError, match="expected a probability"):
        make_judge("embedded", noise=noise)


# --- the chat judge, over real HTTP


def chat_judge(server, **arguments):
    return ChatJudge("judge-model", base_url=server.url, max_retries=0, timeout=5, **arguments)


def test_the_chat_judge_asks_for_a_rating_and_reads_the_asked_form(chat_server, fake_chat):
    chat_server.script(fake_chat.reply("It states both facts.\nRATING: 4"))
    judge = chat_judge(chat_server)
    assert judge(case(GOOD)) == Rating(4, ("It states both facts.",))
    system, user = chat_server.bodies[0]["messages"]
    document = json.loads(user["content"])
    assert document["final_reply"] == GOOD and document["tool_answers"][0]["answer"] == FLIGHT["answer"]
    assert "arguments" not in document["tool_answers"][0] and "RATING: n" in system["content"]
    assert chat_server.bodies[0]["temperature"] == 0.0
    assert judge.identity["model"] == "judge-model" and judge.identity["prompt"].startswith("1-")


def test_another_form_is_asked_for_again_and_then_is_no_opinion(chat_server, fake_chat):
    chat_server.script(fake_chat.reply("Out of 10: 7"), fake_chat.reply("Fine.\nRATING: 3"))
    judge = chat_judge(chat_server)
    assert judge(case(GOOD)).points == 3
    assert "RATING" in chat_server.bodies[1]["messages"][-1]["content"]
    chat_server.script(fake_chat.reply("I give it 5 of 5."))
    rating = chat_judge(chat_server, asks=2)(case(GOOD))
    assert rating.points is None and "2 attempts" in rating.reasons[0]
    assert len(chat_server.bodies) == 4


def test_a_failing_endpoint_is_no_opinion(chat_server, fake_chat):
    chat_server.script(fake_chat.status(500))
    rating = chat_judge(chat_server)(case(GOOD))
    assert rating.points is None and "the judge failed" in rating.reasons[0]
    assert summary_score(case(GOOD), chat_judge(chat_server)).score is None


def test_the_chat_judge_also_verifies(chat_server, fake_chat):
    chat_server.script(fake_chat.reply("<think>RATING: 1</think>All done.\nVERDICT: solved"))
    verdict = chat_judge(chat_server).solved(case(GOOD))
    assert verdict.solved is True
    assert json.loads(chat_server.bodies[0]["messages"][1]["content"])["tool_answers"][0]["arguments"] == {
        "city": "Tarrow"
    }
    chat_server.script(fake_chat.reply("No.\nVERDICT: unsolved"))
    assert chat_judge(chat_server).solved(case(GOOD)).solved is False


RATINGS = {f"RATING: {n}": n for n in range(1, 6)}


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("Good.\nRATING: 5", 5),
        ("RATING: 1\n", 1),
        ("Good.\n  RATING: 2  ", 2),
        ("<think>first RATING: 5</think>\nRATING: 3", 3),
        ("RATING: 7", None),
        ("RATING: 4/5", None),
        ("rating: 4", None),
        ("RATING: 4\nBut who knows.", None),
        ("RATING: 5\nRATING: 4", None),
        ("The reply says RATING: 5.\nRATING: 4", None),
        ("out of 10: 7", None),
        ("5", None),
        ("", None),
    ],
)
def test_only_the_asked_form_is_read(text, points):
    assert read_opinion(text, RATINGS)[0] == points


def test_very_long_answers_are_cut_for_the_chat_judge(chat_server, fake_chat):
    chat_server.script(fake_chat.reply("Long.\nRATING: 2"))
    long = {**FLIGHT, "answer": {"text": "x" * 100_000}}
    assert chat_judge(chat_server)(case("y" * 50_000, answers=[long] * 150)).points == 2
    document = json.loads(chat_server.bodies[0]["messages"][1]["content"])
    assert len(document["tool_answers"]) == 100 and "cut" in document["tool_answers"][0]["answer"]
    assert len(document["final_reply"]) < 9_000


def test_the_chat_judge_needs_at_least_one_ask(chat_server):
    with pytest.raises(ConfigError, match="asks=0"):
        chat_judge(chat_server, asks=0)
