"""Random values of which sentences are generated, and the values that a translation must contain."""

from __future__ import annotations

import random
import string

from names import CITIES, COUNTRIES, DAYS, FIRST, LAST, MONTHS, SAME_CITIES, STREETS, TLD, WORDS

MONEY = [("€", ("euros", "Euro")), ("$", ("dollars", "Dollar")), ("£", ("pounds", "Pfund"))]
# of names that nobody has
ONSETS = "b d f g h j k l m n p r s t v w z br dr gr kl kr pl st tr sch ch sh th y c".split()
NUCLEI = "a e i o u a e i o ai au ei ie oo ö ä ü y ea ou".split()
CODAS = ["", "", "", "n", "r", "l", "s", "k", "m", "t", "nd", "rt", "ng", "ck", "sz", "ck"]


def training_names() -> tuple[list[str], list[str]]:
    """Return the first and last names for training: seven of every eight."""
    return [n for i, n in enumerate(FIRST) if i % 8], [n for i, n in enumerate(LAST) if i % 8]


def test_names() -> tuple[list[str], list[str]]:
    """Return the first and last names for tests: one of every eight, which are not trained on."""
    return FIRST[::8], LAST[::8]


def upper(text: str) -> str:
    return text[:1].upper() + text[1:]


class Values:
    """Random values.

    Each method returns the English and the German form, and records what a translation must copy.
    """

    def __init__(self, rng: random.Random, names: tuple[list[str], list[str]]) -> None:
        self.rng, self.firsts, self.lasts = rng, *names
        self.copied: list[str] = []

    def note(self, text: str) -> str:
        self.copied.append(text)
        return text

    def year(self) -> tuple[str, str]:
        rng = self.rng
        spans = [(1900, 2035), (1900, 2035), (1000, 1899), (1980, 2030)]
        value = rng.choice([rng.randint(*span) for span in spans])
        return (self.note(str(value)),) * 2

    def number(self, low: int = 2, high: int = 9999) -> tuple[str, str]:
        digits = self.rng.randint(len(str(low)), len(str(high)))
        value = min(high, max(low, self.rng.randint(10 ** (digits - 1), 10**digits - 1)))
        return (self.note(str(value)),) * 2

    def thousands(self) -> tuple[str, str]:
        value = self.rng.randint(1000, 9_999_999)
        english = f"{value:,}"
        return english, self.note(english.replace(",", "."))

    def decimal(self) -> tuple[str, str]:
        integer = self.rng.randint(0, 200)
        part = self.rng.choice(["5", "25", "75", str(self.rng.randint(1, 99))])
        return f"{integer}.{part}", self.note(f"{integer},{part}")

    def price(self) -> tuple[str, str]:
        rng = self.rng
        integer = rng.choice([rng.randint(1, 99), rng.randint(100, 999), rng.randint(1000, 9999)])
        cents = rng.choice(["", "", ".99", ".50", f".{rng.randint(0, 99):02}"])
        amount, german = f"{integer}{cents}", self.note(f"{integer}{cents}".replace(".", ","))
        sign, words = rng.choice(MONEY)
        if rng.random() < 0.5:
            return f"{sign}{amount}", f"{german} {sign}"
        return f"{amount} {words[0]}", f"{german} {words[1]}"

    def clock(self) -> tuple[str, str]:
        rng = self.rng
        minute = rng.choice([rng.randint(0, 59), 5 * rng.randint(0, 11)])
        kind = rng.random()
        if kind < 0.6:
            hour = rng.randint(0, 23)
            text = f"{hour}:{minute:02}"
            return text, self.note(text) + " Uhr"
        hour = rng.randint(1, 11)
        afternoon = kind > 0.8
        mark = ("p.m." if afternoon else "a.m.") if rng.random() < 0.5 else ("pm" if afternoon else "am")
        return f"{hour}:{minute:02} {mark}", self.note(f"{hour + 12 * afternoon}:{minute:02}") + " Uhr"

    def first(self) -> tuple[str, str]:
        if self.rng.random() < 0.25:
            return (self.note(self.invented()),) * 2
        return (self.note(self.rng.choice(self.firsts)),) * 2

    def full(self) -> tuple[str, str]:
        last = self.invented() if self.rng.random() < 0.3 else self.rng.choice(self.lasts)
        return (self.note(f"{self.first_only()} {last}"),) * 2

    def first_only(self) -> str:
        return self.invented() if self.rng.random() < 0.2 else self.rng.choice(self.firsts)

    def last(self) -> tuple[str, str]:
        return (self.note(self.invented() if self.rng.random() < 0.3 else self.rng.choice(self.lasts)),) * 2

    def invented(self) -> str:
        """Return an invented name."""
        rng = self.rng
        syllables = [
            rng.choice(ONSETS) + rng.choice(NUCLEI) + rng.choice(CODAS) for _ in range(rng.randint(1, 3))
        ]
        name = "".join(syllables)
        return name.capitalize() + rng.choice(["", "", "", "son", "ski", "er", "ova", "i", "ez", "mann"])

    def city(self) -> tuple[str, str]:
        kind = self.rng.random()
        if kind < 0.4:
            english, german = self.rng.choice(list(CITIES.items()))
            return english, self.note(german)
        if kind < 0.9:
            return (self.note(self.rng.choice(SAME_CITIES)),) * 2
        return (self.note(self.invented()),) * 2

    def country(self) -> tuple[str, str]:
        english, german = self.rng.choice(list(COUNTRIES.items()))
        return english, self.note(german)

    def date(self) -> tuple[str, str]:
        rng = self.rng
        (english, german), day = rng.choice(MONTHS), rng.randint(1, 28)
        end = "th" if 10 < day < 20 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
        form = rng.choice(
            [f"{english} {day}", f"{english} {day}{end}", f"{day} {english}", f"the {day}{end} of {english}"]
        )
        self.note(f"{day}.")
        return form, f"{day}. {self.note(german)}"

    def day(self) -> tuple[str, str]:
        english, german = self.rng.choice(DAYS)
        return english, self.note(german)

    def mail(self) -> tuple[str, str]:
        rng = self.rng
        left = rng.choice(
            [
                rng.choice(WORDS),
                rng.choice(self.firsts).lower(),
                rng.choice(self.firsts).lower() + "." + rng.choice(self.lasts).lower(),
                rng.choice(WORDS) + str(rng.randint(1, 999)),
            ]
        )
        left = "".join(c for c in left if c in string.ascii_lowercase + string.digits + ".") or "info"
        return (self.note(f"{left}@{self.host()}"),) * 2

    def host(self) -> str:
        rng = self.rng
        name = rng.choice(WORDS) + rng.choice(
            ["", "", "-" + rng.choice(WORDS), rng.choice(WORDS), str(rng.randint(1, 99))]
        )
        return f"{name}.{rng.choice(TLD)}"

    def url(self) -> tuple[str, str]:
        rng = self.rng
        parts = [
            rng.choice([rng.choice(WORDS), str(rng.randint(1, 9999))])
            for _ in range(rng.choice([0, 0, 1, 2]))
        ]
        start = rng.choice(["https://", "https://www.", "http://", "www."])
        return (self.note("/".join([start + self.host(), *parts])),) * 2

    def phone(self) -> tuple[str, str]:
        rng = self.rng
        form = rng.choice(
            ["### ### ####", "+49 ## ######", "0### ######", "###-####", "+48 ### ### ###", "#### ####"]
        )
        return (self.note(self._filled(form)),) * 2

    def _filled(self, form: str) -> str:
        """Return a form with a random digit for each ``#`` and a random letter for each ``A``."""
        rng = self.rng
        random_characters = {
            "#": lambda: str(rng.randint(0, 9)),
            "A": lambda: rng.choice(string.ascii_uppercase),
        }
        return "".join(random_characters[c]() if c in random_characters else c for c in form)

    def code(self) -> tuple[str, str]:
        rng = self.rng
        form = rng.choice(["AA###", "A-###", "AAA ####", "A##", "##A", "AA-##-AA", "A#A#"])
        return (self.note(self._filled(form)),) * 2

    def address(self) -> tuple[str, str]:
        rng = self.rng
        street, number = rng.choice(STREETS), rng.randint(1, 250)
        text = f"{number} {street}" if rng.random() < 0.6 else f"{street} {number}"
        return (self.note(text),) * 2


class HardValues(Values):
    """Values with more invented names, more times of twelve hours, and more prices with cents."""

    def first(self) -> tuple[str, str]:
        return (self.note(self.first_only()),) * 2

    def first_only(self) -> str:
        return self.invented() if self.rng.random() < 0.45 else self.rng.choice(self.firsts)

    def full(self) -> tuple[str, str]:
        last = self.invented() if self.rng.random() < 0.5 else self.rng.choice(self.lasts)
        return (self.note(f"{self.first_only()} {last}"),) * 2

    def clock(self) -> tuple[str, str]:
        if self.rng.random() < 0.4:
            return super().clock()
        hour, minute = self.rng.randint(1, 11), self.rng.randint(0, 59)
        afternoon = self.rng.random() < 0.65
        mark = self.rng.choice(["p.m.", "pm"] if afternoon else ["a.m.", "am"])
        return f"{hour}:{minute:02} {mark}", self.note(f"{hour + 12 * afternoon}:{minute:02}") + " Uhr"

    def price(self) -> tuple[str, str]:
        rng = self.rng
        if rng.random() < 0.4:
            return super().price()
        amount = f"{rng.randint(100, 9999)}.{rng.randint(0, 99):02}"
        german = self.note(amount.replace(".", ","))
        sign, words = rng.choice(MONEY)
        if rng.random() < 0.5:
            return f"{sign}{amount}", f"{german} {sign}"
        return f"{amount} {words[0]}", f"{german} {words[1]}"


class TwiceValues(HardValues):
    """Values with repeated letters and digits, of which a model tends to drop one or add a third."""

    def invented(self) -> str:
        name = super().invented()
        for _ in range(self.rng.choice([0, 1, 1, 2])):
            index = self.rng.randrange(1, len(name))
            if name[index].isalpha():
                name = name[:index] + name[index] + name[index:]
        return name

    def phone(self) -> tuple[str, str]:
        english, _ = super().phone()
        digits = list(english)
        for index in range(1, len(digits)):
            if digits[index].isdigit() and digits[index - 1].isdigit() and self.rng.random() < 0.25:
                digits[index] = digits[index - 1]
        self.copied.pop()
        return (self.note("".join(digits)),) * 2
