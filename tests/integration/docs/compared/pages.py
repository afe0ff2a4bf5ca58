"""The programs of the pages, with the names of a test in them, and with 3 seconds where the page has 30."""

import re
from pathlib import Path

PAGES = Path(__file__).resolve().parents[4] / "docs" / "compare"
QUOTED = re.compile(r'"((?:open-)?(?:shop|orders|baskets|entered))"')
PLAIN = re.compile(r"\b(app: |from: |topic: |dead_letters: )(?=\w)")
OF_KSML = re.compile(r"\b(topic: |application\.id: )(?=\w)")
SECONDS = re.compile(r"\b30(_000|s?)\b")


def codes(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (PAGES / f"{page}.md").read_text(encoding="utf-8"), re.S)


def programs(page: str) -> dict[str, str]:
    """The text of each program of the page by the name of its file, which is in its first line."""
    return {text.split()[1]: text for language in ("python", "java") for text in codes(page, language)}


def theirs(text: str, ns: str, kafka: str, redis: str = "") -> str:
    text = SECONDS.sub(r"3\1", QUOTED.sub(rf'"{ns}-\1"', text))
    return text.replace("localhost:9092", kafka).replace("redis://localhost:6379", redis)


def of_ksml(ns: str, kafka: str) -> dict[str, str]:
    """The definition and the file of the runner, by the names of their files."""
    texts = [SECONDS.sub(r"3\1", OF_KSML.sub(rf"\g<1>{ns}-", text)) for text in codes("ksml", "yaml")[1:]]
    return {text.split()[1]: text.replace("localhost:9092", kafka) for text in texts}


def ours(page: str, ns: str, kafka: str, folder: Path) -> str:
    """Our file. Its results have a topic of their own, beside theirs."""
    text = SECONDS.sub(r"3\1", PLAIN.sub(rf"\g<1>{ns}-", codes(page, "yaml")[0]))
    text = text.replace("localhost:9092", kafka).replace("state.db", f"{folder}/state.db")
    text = text.replace("store: ", "http: {port: 0}\nstore: ")
    return re.sub(rf"topic: {ns}-(baskets|entered)", rf"topic: {ns}-our-\1", text)
