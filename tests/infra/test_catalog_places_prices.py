"""The catalog's places, prices and job options."""

import datetime
import re
from importlib.resources import files

import pytest
import yaml

from infra import catalog

ELSEWHERE = catalog.universe().model_copy(update={"domain": "example.org"})


@pytest.mark.parametrize("name", ["job_options", "locations", "prices"])
def test_facts_have_a_value_a_source_and_a_date(name: str) -> None:
    keys = yaml.safe_load(files("infra.catalog").joinpath(f"{name}.yaml").read_text(encoding="utf-8"))
    assert keys
    for key in keys:
        fact = catalog.fact(name, key)
        assert fact.value is not None, key
        assert fact.source, key
        assert fact.read >= datetime.date(2026, 11, 29), key


def test_every_gpu_region_is_one_of_cloud_runs_and_of_compute_engines() -> None:
    for domain, gpus in catalog.fact("locations", "gpu_regions").value.items():
        universe = catalog.universe(domain)
        for accelerator, places in gpus.items():
            assert accelerator in catalog.cloud_run().gpus
            for region in (*places["open"], *places["by_invitation"]):
                assert catalog.cloud_run_tier(region, universe) in (1, 2)
                assert catalog.compute_region_problem(region, universe) is None


def test_a_gpu_that_is_not_in_the_region_names_those_that_have_it() -> None:
    assert catalog.gpu_region_problem("nvidia-l4", "europe-west4") is None
    assert catalog.gpu_region_problem("nvidia-l4", "us-central1") is None
    assert catalog.gpu_by_invitation("nvidia-l4", "us-central1")
    assert not catalog.gpu_by_invitation("nvidia-l4", "europe-west4")
    problem = catalog.gpu_region_problem("nvidia-rtx-pro-6000", "us-east4")
    assert problem is not None
    assert problem.field == "region"
    assert re.search(
        r"no nvidia-rtx-pro-6000 in us-east4 \(https://docs\.cloud.*Choose .*west4.* by invitation .*asia-south2",
        problem.message,
    )


def test_where_the_regions_are_not_known_nothing_is_refused() -> None:
    assert catalog.gpu_region_problem("nvidia-l4", "anywhere", ELSEWHERE) is None
    assert catalog.gpu_region_problem("nvidia-l4", "u-france-east1", catalog.universe("s3nsapis.fr")) is None
    assert catalog.gpu_region_problem("unheard-of", "us-central1") is None


def test_an_hour_of_the_scenarios_job_is_the_sum_of_its_parts() -> None:
    price = catalog.job_price("us-central1", 8, 32, "nvidia-l4", zonal_redundancy=False)
    assert price.per_hour == pytest.approx(3600 * (8 * 0.000018 + 32 * 0.000002 + 0.0001867))
    assert sum(price.parts.values()) == pytest.approx(price.per_hour)
    assert list(price.parts) == ["8 vCPU", "32 GiB", "nvidia-l4"]
    assert (price.currency, price.read, price.reason) == ("USD", datetime.date(2026, 11, 29), "")


def test_redundancy_and_the_larger_gpu_cost_more() -> None:
    def hour(accelerator: str | None, redundant: bool) -> float:
        price = catalog.job_price("europe-west4", 20, 80, accelerator, redundant)
        assert price.per_hour is not None
        return price.per_hour

    large, small = "nvidia-rtx-pro-6000", "nvidia-l4"
    assert hour(None, False) < hour(small, False) < hour(small, True) < hour(large, False) < hour(large, True)


@pytest.mark.parametrize(
    ("region", "accelerator", "universe", "says"),
    [
        ("asia-southeast1", "nvidia-l4", None, "prices in asia-southeast1 (tier 2)"),
        ("nowhere", "nvidia-l4", None, "price tier in nowhere"),
        ("us-central1", "nvidia-h100", None, "the price of GPU nvidia-h100"),
        ("u-france-east1", "nvidia-l4", catalog.universe("s3nsapis.fr"), "price tier in u-france-east1"),
    ],
)
def test_a_price_that_is_not_known_is_not_guessed(
    region: str, accelerator: str, universe: catalog.Universe | None, says: str
) -> None:
    price = catalog.job_price(region, 8, 32, accelerator, zonal_redundancy=False, universe=universe)
    assert price.per_hour is None
    assert price.parts == {}
    assert says in price.reason
    assert price.source in price.reason


def test_storage_has_a_price_or_none() -> None:
    assert catalog.storage_gb_month("us-central1") == 0.02
    assert catalog.storage_gb_month("us-west4") is None
    assert catalog.storage_gb_month("us-central1", ELSEWHERE) is None


@pytest.mark.parametrize("option", ["implicit-dirs", "metadata-cache-ttl-secs=60", "log-severity=trace", "uid=1000"])
def test_mount_options_that_are_taken(option: str) -> None:
    assert catalog.mount_option_problems([option]) == []


@pytest.mark.parametrize("option", ["--implicit-dirs", "-o", "uid 1000", "", "uid="])
def test_mount_options_that_are_refused(option: str) -> None:
    [problem] = catalog.mount_option_problems([option])
    assert problem.field == "mount_options"
    assert repr(option) in problem.message


@pytest.mark.parametrize(
    ("cidr", "says"),
    [
        ("10.0.0.0/27", "/26 or larger"),
        ("10.0.0.0/30", "/4 to /29"),
        ("10.0.0.1/20", "no IPv4 range"),
        ("somewhere", "no IPv4 range"),
    ],
)
def test_subnets_that_no_job_fits_into(cidr: str, says: str) -> None:
    problem = catalog.direct_vpc_range_problem(cidr)
    assert problem is not None
    assert says in problem.message
    assert catalog.direct_vpc_range_problem("10.0.0.0/26") is None


def test_every_universe_has_a_console() -> None:
    assert catalog.universe().console_domain == "console.cloud.google.com"
    assert catalog.universe("s3nsapis.fr").console_domain == "console.cloud.s3nscloud.fr"


def test_a_tpu_chip_costs_less_by_flex_start_and_an_unknown_price_is_none() -> None:
    flex, on_demand = (catalog.tpu_chip_price("v6e", "us-east5", each).per_hour or 0 for each in (True, False))
    assert 0 < flex < on_demand
    unknown = catalog.tpu_chip_price("v6e", "us-east1", True)
    assert unknown.per_hour is None
    assert "TPU v6e flex start in us-east1" in unknown.reason
