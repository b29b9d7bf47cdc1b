"""Secrets in a command line: what looks like one is masked before the command is kept anywhere.

A name says that its value is a secret (`--api-key X`, `HF_TOKEN=X`, `{"password": "X"}`), or the
value is one by its shape. What a training calls by such words, as in `--max-tokens`, `--pad-token`
or `--key-dim`, stays.
"""

import re
from collections.abc import Sequence

MASK = "***"

_SECRETS = (
    "accesskey", "accesstoken", "apikey", "apitoken", "authtoken", "credential", "credentials",
    "passphrase", "passwd", "password", "passwords", "privatekey", "pwd", "secret", "secretkey",
    "secrets",
)  # fmt: skip
# A name that ends with one of these tells where a secret is, or how long, but does not hold it.
_ABOUT = {
    "count", "dir", "env", "field", "file", "filename", "format", "id", "len", "length", "name",
    "path", "size", "type", "url", "var",
}  # fmt: skip
# Secrets at the end of a name, unless the word before is one of a training's own.
_AT_THE_END = {"auth", "authorization", "bearer", "cookie", "jwt", "pass", "token"}
_OF_TRAINING = {
    "audio", "band", "begin", "bos", "class", "cls", "decoder", "end", "eos", "eot", "fim", "first",
    "forward", "high", "image", "img", "init", "last", "low", "mask", "max", "min", "multi", "next",
    "no", "num", "one", "pad", "padding", "per", "prefix", "prompt", "second", "sep", "single",
    "special", "start", "stop", "suffix", "text", "two", "unk", "video", "word",
}  # fmt: skip
# Secrets at the end of a name only if the word before says whose or what for.
_OF_SOMEBODY = {"key", "keys", "tokens"}
_SOMEBODY = {
    "access", "account", "anthropic", "api", "auth", "aws", "azure", "clearml", "comet",
    "databricks", "encryption", "gcp", "github", "gitlab", "google", "hf", "huggingface", "license",
    "mistral", "mlflow", "neptune", "ngc", "openai", "private", "replicate", "secret", "signing",
    "ssh", "subscription", "wandb",
}  # fmt: skip
_SEVERAL = {"credentials", "keys", "passwords", "secrets", "tokens"}  # as in `--api-keys A B`
_SWITCHES = {"true", "false", "yes", "no", "on", "off", "none", "null"}

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_FLAG = re.compile(r"--?[A-Za-z][\w.-]*\Z")
_NO_VALUE = re.compile(r"--[A-Za-z]|-[A-Za-z]\Z")
_NAMED = re.compile(r"([-+~]*[A-Za-z_][\w./@-]*)(=|:\s+)(.*)", re.DOTALL)
_NAME_INSIDE = re.compile(r"(?<![\w.-])([\w.-]+)[\"']?\s*[=:]\s*")
_VALUE_INSIDE = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[^\s\"',;&{}()\[\]]+")
_RANDOM = re.compile(
    r"(?![./~])(?=.*[0-9])(?=.*[A-Za-z])(?:[A-Za-z0-9+/=]{16,}|[0-9A-Fa-f-]{32,})\Z"
)

_SECRET = "0a" * 16  # is one under every name that can hold one

# Secrets wherever they stand; what is in a group stays.
_SHAPES = tuple(
    re.compile(pattern)
    for pattern in (
        r"((?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]*://[^\s:/@]*:)(?!\d+[/?#])\S+(?=@)",
        r"((?<![\w.~%+/:-])[\w.~%+-]*:)[^\s:/@]+(?=@(?!sha\d+:)(?:[A-Za-z[]|\d+\.\d+\.))",
        r"(://)(?=[^\s/@]*\d)[A-Za-z0-9_-]{16,}(?=@)",
        r"([?&](?:sig|[\w-]*[Ss]ignature)=)[^\s&]+",
        r"(\b(?:Bearer|bearer|Basic)\s+)[\w.~+/=-]{8,}",
        r"()(?<![A-Za-z0-9])(?:hf|gh[oprsu]|npm|r8)_[A-Za-z0-9]{20,}",
        r"()(?<![A-Za-z0-9])github_pat_\w{20,}",
        r"()(?<![A-Za-z0-9])(?:glpat|nvapi|pypi)-[\w-]{20,}",
        r"()(?<![A-Za-z0-9])sk[-_](?=[\w-]{0,64}?[A-Za-z0-9]{16})[\w-]{20,}",
        r"()(?<![A-Za-z0-9])xox[a-z]-[\w-]{10,}",
        r"()(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])",
        r"()(?<![A-Za-z0-9])AIza[\w-]{30,}",
        r"()(?<![A-Za-z0-9])dapi[0-9a-f]{32}",
        r"()(?<![A-Za-z0-9])eyJ[\w-]{8,}\.[\w-]+\.[\w-]*",  # a JSON web token
        r"(-----BEGIN [A-Z ]*PRIVATE KEY-----)[\s\S]+",
    )
)


def mask_command(arguments: Sequence[str]) -> tuple[str, ...]:
    """The same arguments, with what looks like a secret masked in them."""
    masked: list[str] = []
    name = ""
    for argument in arguments:
        if name and not _NO_VALUE.match(argument) and _is_secret(name, argument):
            masked.append(MASK)
            name = name if _words(name)[-1] in _SEVERAL else ""
        else:
            masked.append(mask_text(argument))
            name = argument if _FLAG.match(argument) else ""
    return tuple(masked)


def mask_text(text: str) -> str:
    """The text, with what looks like a secret masked in it."""
    kept = ""
    while named := _NAMED.fullmatch(text):
        name, between, text = named.groups()
        kept += name + between
        if _is_secret(name, text):
            return kept + MASK
    for shape in _SHAPES:
        text = shape.sub(rf"\1{MASK}", text)
    return kept + _mask_inside(text)


def _mask_inside(text: str) -> str:
    """The text without the values of secret names that stand somewhere in it."""
    parts, done = [], 0
    position = 0
    while named := _NAME_INSIDE.search(text, position):
        position = named.end()
        if not _is_secret(named[1], _SECRET):
            continue
        value = _VALUE_INSIDE.match(text, position)
        if value is None:
            continue
        quote = value[0][0] if value[0][0] in "\"'" else ""
        if _is_secret(named[1], value[0].strip(quote or None)):
            parts += [text[done:position], quote, MASK, quote]
            position = done = value.end()
    return "".join(parts) + text[done:]


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


def _is_secret(name: str, value: str) -> bool:
    """Whether what is given under that name is a secret."""
    words = _words(name)
    if not words or not value or words[-1] in _ABOUT:
        return False
    if any(word.endswith(_SECRETS) for word in words):
        return True
    before, last = ["", *words][-2:]
    if last in _AT_THE_END:
        return before not in _OF_TRAINING and value.lower() not in _SWITCHES
    if last in _OF_SOMEBODY and before in _SOMEBODY:
        return True
    return last == "key" and _RANDOM.match(value) is not None
