import pytest

from agentlab.secrets import remember, scrub, without_password


def test_known_values_are_replaced_wherever_they_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_API_KEY", "sk-from-environment")
    remember("token-of-the-user")
    remember("abc")
    assert scrub("a sk-from-environment b token-of-the-user abc") == "a *** b *** abc"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("mysql+pymysql://root:hunter2secret@db/x", "mysql+pymysql://root:***@db/x"),
        ("sqlite:///results/x.sqlite", "sqlite:///results/x.sqlite"),
        ("results/folder", "results/folder"),
        (
            "sqlite:////data/x.db?timeout=5&password=hunter2&mode=ro",
            "sqlite:////data/x.db?timeout=5&password=***&mode=ro",
        ),
        ("mysql://db/x?user=me&PWD=a", "mysql://db/x?user=me&PWD=***"),
        ("https://host/v1?api_key=k-1&x-token=t2#top", "https://host/v1?api_key=***&x-token=***#top"),
        ("https://host/v1?monkey=k-1&keyboard=us", "https://host/v1?monkey=k-1&keyboard=us"),
    ],
)
def test_addresses_lose_their_password(address: str, shown: str) -> None:
    assert without_password(address) == shown


def test_a_password_that_was_seen_is_scrubbed_everywhere() -> None:
    without_password("postgresql+psycopg://u:longpassword1@h/d")
    assert scrub("cannot log in with longpassword1") == "cannot log in with ***"


def test_a_password_in_a_parameter_is_scrubbed_everywhere_in_both_its_forms() -> None:
    without_password("sqlite:////x.db?password=long%20password")
    assert scrub("long password, long%20password") == "***, ***"
