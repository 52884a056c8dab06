import json
from pathlib import Path
from typing import Any

import pytest

from agentlab import secrets
from agentlab.errors import ConfigError
from agentlab.models.endpoint import (
    DEFAULT_MODEL,
    NO_KEY,
    Endpoint,
    base_url_of,
    endpoint_from_environment,
    is_loopback,
    model_from_environment,
)

CASES = json.loads((Path(__file__).parents[1] / "cases" / "chat_responses.json").read_text(encoding="utf-8"))["cases"]
A25 = next(case for case in CASES if case["id"] == "A25")


@pytest.mark.parametrize("case", A25["input"]["endpoints"], ids=lambda case: case["setting"])
def test_a25_each_setting_leads_to_its_url(case: dict[str, Any]) -> None:
    url = Endpoint(base_url_of(case["setting"], "LLM_BASE_URL"), "k").request_url
    assert url in case.get("request_url_any_of", [case.get("request_url")])


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("https://api.deepseek.com", "https://api.deepseek.com/v1"),
        ("https://gateway.example/compatible-mode/v1/", "https://gateway.example/compatible-mode/v1"),
        ("https://gateway.example/api/paas/v4", "https://gateway.example/api/paas/v4"),
        (" http://[::1]:8000/v1/chat/completions ", "http://[::1]:8000/v1"),
    ],
)
def test_other_spellings(address: str, expected: str) -> None:
    assert base_url_of(address, "LLM_BASE_URL") == expected


@pytest.mark.parametrize("address", ["127.0.0.1:8000", "localhost:8000/v1", "ftp://x/v1", "http://", "http://x/v1?a=b"])
def test_an_address_that_is_none_is_refused_with_an_example(address: str) -> None:
    with pytest.raises(ConfigError, match=r"LLM_BASE_URL=.*http://127\.0\.0\.1:8000/v1"):
        base_url_of(address, "LLM_BASE_URL")


def test_the_llm_family_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "openai-secret")
    monkeypatch.setenv("OPENAI_BASE_URL", "https://other.example/v1")
    endpoint = endpoint_from_environment()
    assert (endpoint.base_url, endpoint.api_key) == ("https://other.example/v1", "openai-secret")
    assert (endpoint.url_setting, endpoint.key_setting) == ("OPENAI_BASE_URL", "OPENAI_API_KEY")
    monkeypatch.setenv("LLM_API_KEY", "llm-secret")
    endpoint = endpoint_from_environment()
    assert (endpoint.base_url, endpoint.api_key) == ("https://api.openai.com/v1", "llm-secret")
    assert endpoint.url_setting == "the default address"


def test_a_key_is_never_sent_to_the_server_of_the_other_family(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "openai-secret")
    monkeypatch.setenv("LLM_BASE_URL", "http://127.0.0.1:8000")
    assert endpoint_from_environment().api_key == NO_KEY
    monkeypatch.setenv("LLM_BASE_URL", "https://llm.example.com/v1")
    with pytest.raises(ConfigError, match="OPENAI_API_KEY is set, but is not sent") as raised:
        endpoint_from_environment()
    assert "openai-secret" not in str(raised.value)


def test_a_missing_key_names_the_variables_and_the_alternatives() -> None:
    with pytest.raises(ConfigError) as raised:
        endpoint_from_environment()
    for word in ("LLM_API_KEY", "OPENAI_API_KEY", "LLM_BASE_URL", "simulated:perfect", "scripted:"):
        assert word in str(raised.value)


def test_a_key_becomes_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_API_KEY", "sk-endpoint-test-key")
    monkeypatch.setenv("LLM_BASE_URL", "https://llm.example.com/v1")
    endpoint = endpoint_from_environment()
    assert "sk-endpoint-test-key" not in repr(endpoint)
    assert secrets.scrub("sk-endpoint-test-key") == "***"


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("http://[::1/v1", "host cannot be read"),
        ("http://[nothing]/v1", "host cannot be read"),
        ("http://127.0.0.1:port/v1", "port must be a number from 1 to 65535"),
        ("http://127.0.0.1:99999/v1", "port must be a number from 1 to 65535"),
        ("http://127.0.0.1:0/v1", "port must be a number from 1 to 65535"),
        ("http:///v1", "names no host"),
        ("http:127.0.0.1/v1", "must begin with http:// or https://"),
        ("llm.example.com/v1?api_key=endpoint-pass", "must begin with http:// or https://"),
        ("https://llm.example.com/v1?api_key=endpoint-pass", "nothing may follow the path"),
        ("https://llm.example.com/v1#endpoint-pass", "nothing may follow the path"),
        ("https://user:endpoint-pass@llm.example.com/v1", "a user or password"),
        ("https://endpoint-pass@llm.example.com/v1", "a user or password"),
        ("user:endpoint-pass@llm.example.com/v1", "must begin with http:// or https://"),
        ("https://user:endpoint-pass/a@llm.example.com/v1", "port must be a number"),
    ],
)
def test_a_wrong_address_says_what_is_wrong_and_shows_no_secret(address: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as raised:
        base_url_of(address, "LLM_BASE_URL")
    assert "http://127.0.0.1:8000/v1" in str(raised.value)
    assert "endpoint-pass" not in str(raised.value)
    assert "endpoint-pass" not in repr(raised.value.__context__)


@pytest.mark.parametrize("key", ["密钥-secret", "sk-one\nsk-two"])
def test_a_key_that_no_header_can_carry_is_refused_without_showing_it(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM_API_KEY", key)
    with pytest.raises(ConfigError, match="LLM_API_KEY holds characters") as raised:
        endpoint_from_environment()
    assert key not in str(raised.value)


def test_the_model_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert model_from_environment() == DEFAULT_MODEL
    monkeypatch.setenv("OPENAI_MODEL", "b")
    assert model_from_environment() == "b"
    monkeypatch.setenv("LLM_MODEL", "a")
    assert model_from_environment() == "a"


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True), ("model.localhost", True), ("127.0.0.1", True), ("127.9.9.9", True), ("::1", True),
        ("0.0.0.0", True), ("10.0.0.1", False), ("llm.example.com", False), ("localhost.example.com", False),
    ],
)  # fmt: skip
def test_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_the_proxy_that_applies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://user:proxy-password@proxy.example:3128")
    assert Endpoint("http://127.0.0.1:1/v1", "k").proxy() is None
    assert Endpoint("https://llm.example.com/v1", "k").proxy() == "http://user:***@proxy.example:3128"
    assert Endpoint("http://llm.example.com/v1", "k").proxy() is None
    monkeypatch.setenv("NO_PROXY", "llm.example.com")
    assert Endpoint("https://llm.example.com/v1", "k").proxy() is None
