"""What looks like a secret in a command line is masked, and nothing else."""

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceml.masking import MASK, mask_command, mask_text

NAMES = (
    "token", "hf-token", "HF_TOKEN", "auth_token", "accessToken", "HFToken", "password",
    "db_passwd", "passphrase", "pwd", "smtp.pass", "secret", "client-secret", "CLIENT_SECRET",
    "secrets", "api-key", "apiKey", "APIKEY", "wandb_api_key", "wandb.key", "OPENAI_API_KEY",
    "access-key", "aws_secret_access_key", "private_key", "auth", "basic-auth", "credential",
    "credentials", "my-password-2", "api-keys", "github-tokens", "AccountKey", "jwt",
)  # fmt: skip
HARMLESS = (
    ("--max-tokens", "512"), ("--tokenizer", "gpt2"), ("--num-keys", "8"), ("--key-dim", "64"),
    ("--pad-token", "<pad>"), ("--eos_token", "</s>"), ("--eos-token-id", "50256"),
    ("--tokens", "1e9"), ("--tokens-per-batch", "4096"), ("--token-file", "/run/secrets/token"),
    ("--label-key", "label"), ("--key", "val_loss_of_epoch_10"), ("--image-key", "jpg"),
    ("--author", "ada"), ("--authors", "ada"), ("--auth-type", "oauth"), ("--tls-key", "k.pem"),
    ("--password-file", "pw.txt"), ("--secret-name", "train"), ("--low-pass", "0.1"),
    ("--use-auth-token", "true"), ("--passes", "3"), ("--compass", "north"), ("--bypass", "x"),
    ("--attention-keys", "4"), ("--keyword", "dog"), ("--monkey", "see"), ("--secretary", "bob"),
    ("--model", "org/sk-small-model-for-tests"), ("--commit", "f" * 40),
    ("--url", "http://host:8080/a@b"), ("--image", "repo/name:tag@sha256:" + "0" * 64),
    ("--repo", "ssh://git@host:22/x"), ("--metric", "recall:top@10"), ("--lr", "1e-3"),
    ("--time", "12:30"), ("--set", "model.max_tokens=512"), ("--json", '{"tokens": 5, "key": "a"}'),
    ("--name", "hf_small_model"), ("--data", "s3://bucket/key:a"),
)  # fmt: skip
SHAPES = (
    "hf_" + "aB3" * 12, "ghp_" + "aB3" * 12, "github_pat_" + "aB3_" * 20, "sk-" + "aB3" * 16,
    "sk-proj-" + "aB3_x-" * 2 + "aB3" * 16, "AKIA" + "ABCD" * 4, "glpat-" + "aB3-" * 5,
    "xoxb-1234567890-abc", "AIza" + "aB3-_" * 7, "eyJhbGciOiJI.eyJzdWIiOiIx.abc_-",
    "nvapi-" + "aB3_" * 8, "dapi" + "0a" * 16,
)  # fmt: skip

# What stands in a shell's word; a value that begins like a flag is one.
secrets = st.text(string.ascii_letters + string.digits + "!#%+,./:;=?@^_~ -", min_size=6).filter(
    lambda text: text.lstrip("-") == text and text.strip() == text and MASK not in text
)
words = st.text(string.ascii_letters + string.digits, min_size=6, max_size=40)
around = st.lists(st.sampled_from(HARMLESS), max_size=3).map(
    lambda pairs: [part for pair in pairs for part in pair]
)


@given(st.sampled_from(NAMES), secrets, around)
def test_the_value_of_a_name_that_says_secret_is_masked_however_it_is_given(
    name: str, secret: str, others: list[str]
) -> None:
    forms: tuple[list[str], ...] = (
        [f"--{name}", secret],
        [f"-{name}", secret],
        [f"--{name}={secret}"],
        [f"{name}={secret}"],
        [f"+logger.{name}={secret}"],
        ["--set", f"logger.{name}={secret}"],
        [f"--set=logger.{name}={secret}"],
        ["--header", f"{name}: {secret}"],
        ["--config", json.dumps({"lr": 0.1, name: secret, "layers": 2})],
    )
    for given_as in forms:
        command = [*others, "--lr", "1", *given_as, "--lr", "1", *others]
        masked = mask_command(command)
        place = len(others) + 2
        assert masked[:place] == tuple(command[:place])
        assert masked[place + len(given_as) :] == tuple(command[place + len(given_as) :])
        assert secret not in masked[place : place + len(given_as)][-1].replace(name, "")
        assert name in masked[place] + masked[place + len(given_as) - 1]


@given(st.sampled_from(NAMES), words, words)
def test_it_is_masked_inside_of_a_text(name: str, secret: str, other: str) -> None:
    for text in (
        f"https://host/path?{name}={secret}&user=ada",
        f"host=db;{name}={secret};user=ada",
        f"see {name}='{secret} {other}', user=ada",
    ):
        assert secret not in mask_text(text).replace(name, "").replace(other, "")
        assert "user=ada" in mask_text(text)


@given(st.lists(st.sampled_from(HARMLESS)), st.booleans())
def test_everything_else_stays_as_it_is(pairs: list[tuple[str, str]], joined: bool) -> None:
    split = [part for pair in pairs for part in pair]
    command = ["traceml", "run", "train.py", "--", *split]
    command += ["=".join(pair) for pair in pairs]
    assert mask_command(command) == tuple(command)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape[:6])
def test_a_well_known_shape_is_masked_wherever_it_stands(shape: str) -> None:
    command = (shape, f"--name={shape}", "--name", shape, f"a,{shape},b", f"x {shape}")
    assert mask_command(command) == (
        MASK,
        f"--name={MASK}",
        "--name",
        MASK,
        f"a,{MASK},b",
        f"x {MASK}",
    )


@given(words, secrets.filter(lambda text: " " not in text and not text[0].isdecimal()))
def test_the_password_in_an_address_is_masked(user: str, password: str) -> None:
    for address in ("db://{}:{}@host/x", "--db=db://{}:{}@host/x"):
        masked = mask_text(address.format(user, password))
        assert masked.startswith(address.format(user, MASK).removesuffix("@host/x"))
        assert password not in masked.replace(user, "")


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("--db=ada:pa55@host:5432", f"--db=ada:{MASK}@host:5432"),
        ("lost ada:pa55@127.0.0.1:9, gone", f"lost ada:{MASK}@127.0.0.1:9, gone"),
        ("https://0123456789abcdef@host/repo.git", f"https://{MASK}@host/repo.git"),
        ("https://blob/x?sv=1&sig=a%2Fb&se=2", f"https://blob/x?sv=1&sig={MASK}&se=2"),
        ("curl -H 'Authorization: Bearer abc.def-123'", f"curl -H 'Authorization: {MASK} {MASK}'"),
        ("Authorization: Bearer abc.def-123", f"Authorization: {MASK}"),
        ("--key=0123456789abcdef0123", f"--key={MASK}"),
    ],
)
def test_secrets_in_addresses_and_headers(text: str, masked: str) -> None:
    assert mask_text(text) == masked


def test_all_values_of_a_plural_are_masked_up_to_the_next_flag() -> None:
    command = ("--api-keys", "one", "two", "--lr", "1", "--token", "three", "train.yaml")
    assert mask_command(command) == (
        "--api-keys", MASK, MASK, "--lr", "1", "--token", MASK, "train.yaml",
    )  # fmt: skip


def test_a_switch_does_not_mask_the_flag_behind_it() -> None:
    assert mask_command(("--auth", "--lr", "1", "--auth", "-v")) == (
        "--auth", "--lr", "1", "--auth", "-v",
    )  # fmt: skip
    assert mask_command(("--token", "-abc")) == ("--token", MASK)


@pytest.mark.parametrize(
    "text", ["x:", "a=", "a.", "sk-", "://:", "a='", "token=x,", "-----BEGIN "]
)
def test_a_long_argument_does_not_keep_the_run_from_starting(text: str) -> None:
    mask_command([text * (100_000 // len(text))])


@given(st.lists(st.text()))
def test_any_arguments_can_be_masked_and_only_once(arguments: list[str]) -> None:
    masked = mask_command(arguments)
    assert len(masked) == len(arguments)
    assert mask_command(masked) == masked
