from dataclasses import FrozenInstanceError

import pytest

from traceml.diagnosis.finding import DOMAINS, no_data


def test_the_domains_are_those_of_the_contract() -> None:
    assert DOMAINS == ("step_time", "step_memory", "system", "process")


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_domain_that_no_rule_has_judged_says_so_without_alarm(domain: str) -> None:
    finding = no_data(domain)
    assert (finding.domain, finding.state, finding.severity) == (domain, "NO_DATA", "info")
    assert finding.summary.endswith(".")


def test_a_finding_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        no_data("system").severity = "critical"  # type: ignore[misc]
