"""Prices are dated data that anyone can edit; a mistake in it is named."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.scale import PRICES, list_prices
from functions.domain.errors import InvalidInput
from tools.cost.prices import LISTED, NAMES, read_prices

SCALE = Path(__file__).resolve().parents[3] / "benchmarks" / "results" / "scale.json"


def edited(tmp_path: Path, **changes: Any) -> Path:
    content = json.loads(LISTED.read_text())
    for name, change in changes.items():
        content["prices"][name] = content["prices"].get(name, {}) | change
    path = tmp_path / "prices.json"
    path.write_text(json.dumps(content))
    return path


def test_every_price_says_what_it_is_for_where_it_stands_and_whether_that_was_confirmed() -> None:
    prices = read_prices()

    assert list(prices.by_name) == list(NAMES)
    assert all(price.unit and price.source.startswith("https://") for price in prices.by_name.values())
    assert prices.assumed == [name for name, price in prices.by_name.items() if not price.confirmed]
    assert all(price.as_of for name, price in prices.by_name.items() if price.confirmed and "dynamodb_w" in name)


def test_a_price_is_for_one_of_its_unit() -> None:
    assert read_prices().each("s3_write") == pytest.approx(0.000005)
    assert read_prices().each("state_transition") == pytest.approx(0.000025)


def test_a_region_has_its_own_prices_where_they_are_known_and_the_lists_where_not() -> None:
    paris = read_prices("eu-west-3")

    assert (paris.region, paris.listed_for, paris.own) == ("eu-west-3", "us-east-1", 1)
    assert paris.each("state_transition") == pytest.approx(0.0297 / 1000)
    assert paris.each("s3_write") == read_prices().each("s3_write")
    assert (read_prices("eu-central-1").own, read_prices("us-east-1").own) == (0, len(NAMES))


def test_an_edited_price_is_the_one_that_counts(tmp_path: Path) -> None:
    assert read_prices(path=edited(tmp_path, alarm={"dollars": 7})).each("alarm") == 7


def test_the_scale_benchmark_takes_the_same_prices_and_its_results_were_made_with_them() -> None:
    prices = read_prices()

    assert list_prices() == {name: prices.each(name) for name in PRICES}
    assert json.loads(SCALE.read_text())["prices"] == pytest.approx(list_prices())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metric": {"dollars": -1}}, "--prices: metric: -1 is no number from 0 on"),
        ({"metric": {"dollars": "1"}}, "--prices: metric: '1' is no number from 0 on"),
        ({"metric": {"for": 0}}, "--prices: metric: 0 is no number from 1 on"),
        ({"metric": {"as_of": "last year"}}, "--prices: metric: as_of: 'last year' is no date"),
        ({"gold": {"dollars": 1}}, "--prices: gold: no price of that name is used"),
    ],
    ids=["negative", "text", "for none", "no date", "unknown"],
)
def test_a_mistake_in_a_price_list_is_named(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_prices(path=edited(tmp_path, **changes))


def test_a_price_that_is_missing_is_named(tmp_path: Path) -> None:
    content = json.loads(LISTED.read_text())
    del content["prices"]["metric"]["source"]
    path = tmp_path / "prices.json"
    path.write_text(json.dumps(content))
    with pytest.raises(InvalidInput, match=r"--prices: metric\.source: missing"):
        read_prices(path=path)
    with pytest.raises(InvalidInput, match=r"--prices: .*nowhere\.json: No such file"):
        read_prices(path=tmp_path / "nowhere.json")
    path.write_text("{")
    with pytest.raises(InvalidInput, match=r"--prices: .*: no JSON"):
        read_prices(path=path)
