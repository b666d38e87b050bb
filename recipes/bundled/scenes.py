"""Plain scenes, such as "A man in a red shirt is standing on a bench.", in English and German."""

from __future__ import annotations

import random

from scene_words import (
    ANIMALS,
    CLOTHES,
    CLOTHES_PLURAL,
    COLOURS,
    DOES,
    FITS,
    FIXED_PLACES,
    HANDLES,
    LOCATIONS,
    NUMBERS,
    OBJECTS,
    PEOPLE,
    WHO_ADJECTIVES,
)
from values import upper

# by case and gender the article, and the ending of an adjective behind it
EIN = {
    "nom": {"m": ("ein", "er"), "f": ("eine", "e"), "n": ("ein", "es")},
    "acc": {"m": ("einen", "en"), "f": ("eine", "e"), "n": ("ein", "es")},
    "dat": {"m": ("einem", "en"), "f": ("einer", "en"), "n": ("einem", "en")},
}
DEF = {
    "nom": {"m": ("der", "e"), "f": ("die", "e"), "n": ("das", "e")},
    "acc": {"m": ("den", "en"), "f": ("die", "e"), "n": ("das", "e")},
    "dat": {"m": ("dem", "en"), "f": ("der", "en"), "n": ("dem", "en")},
}

PARTICLES = {"aus", "ein", "zu", "weg"}
LAST_OBJECTS = set(
    """Fahrrad Ski Skateboard Gitarre Fußball Football Basketball Baseball Tennis Volleyball Musik Karten
    Fotos Kaffee Bier""".split()
)


def stem(adjective: str) -> str:
    return {"dunkel": "dunkl", "lila": "lila", "müde": "müd"}.get(adjective, adjective)


def ending(adjective: str, end: str) -> str:
    return adjective if adjective == "lila" else stem(adjective) + end


class Scene:
    """Draws random phrases; each is a pair of an English and a German text."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def phrase(
        self, noun: tuple[str, str, str], case: str, adjectives: list[tuple[str, str]], definite: bool = False
    ) -> tuple[str, str]:
        english, german, gender = noun
        words = " ".join([*[a for a, _ in adjectives], english])
        article = "the" if definite else "an" if words[0] in "aeiou" and not words.startswith("uni") else "a"
        determiner, end = (DEF if definite else EIN)[case][gender]
        return f"{article} {words}", " ".join([determiner, *[ending(a, end) for _, a in adjectives], german])

    def maybe_adjective(self, table: list[tuple[str, str]], chance: float) -> list[tuple[str, str]]:
        return [self.rng.choice(table)] if self.rng.random() < chance else []

    def subject(self) -> tuple[str, str, bool, str]:
        rng = self.rng
        person = rng.choice(PEOPLE[:8] if rng.random() < 0.5 else PEOPLE)
        adjectives = self.maybe_adjective(WHO_ADJECTIVES, 0.35)
        if person[0] in ANIMALS:
            adjectives = self.maybe_adjective(
                [*COLOURS[:8], ("big", "groß"), ("small", "klein"), ("old", "alt")], 0.6
            )
        if rng.random() < 0.3:
            number = rng.choice(NUMBERS)
            single = number[0] == "a group of"
            end, plural = ("en", dative_plural(person[5])) if single else ("e", person[5])
            german = " ".join([number[1], *[ending(a, end) for _, a in adjectives], plural])
            english = " ".join([number[0], *[a for a, _ in adjectives], person[1]])
            return english, german, not single, person[0]
        english, german = self.phrase(
            (person[0], person[2], person[3]), "nom", adjectives, rng.random() < 0.12
        )
        return english, german, False, person[0]

    def clothes(self) -> tuple[str, str]:
        rng = self.rng
        if rng.random() < 0.2:
            english, german, gender = rng.choice(CLOTHES_PLURAL)
            colour = rng.choice(COLOURS[:8])
            if " " in german:
                return f"{english}", "einer kurzen Hose"
            if gender == "p":
                return f"{colour[0]} {english}", f"{ending(colour[1], 'en')} {dative_plural(german)}"
            return (
                f"{colour[0]} {english}",
                f"einer {ending(colour[1], 'en')} {german}"
                if german != "Kleidung"
                else f"{ending(colour[1], 'er')} {german}",
            )
        return self.phrase(rng.choice(CLOTHES), "dat", self.maybe_adjective(COLOURS[:21], 0.75))

    def place(self) -> tuple[str, str]:
        rng = self.rng
        if rng.random() < 0.35:
            return rng.choice(FIXED_PLACES)
        english, german, gender, en, de = rng.choice(LOCATIONS)
        definite = rng.random() < 0.35
        english_phrase, german_phrase = self.phrase(
            (english, german, gender),
            "dat",
            [] if definite else self.maybe_adjective(COLOURS[:9] + COLOURS[-6:], 0.2),
            definite,
        )
        german_phrase = f"{de} {german_phrase}"
        for long, short in (("in dem ", "im "), ("an dem ", "am ")):
            german_phrase = (
                german_phrase.replace(long, short) if german_phrase.startswith(long) else german_phrase
            )
        return f"{en} {english_phrase}", german_phrase

    def sentence(self) -> tuple[str, str]:
        """Return a sentence about a person or animal, with an activity and sometimes clothes."""
        rng = self.rng
        english, german, plural, person = self.subject()
        if person not in ANIMALS and rng.random() < 0.4:
            english_clothes, german_clothes = self.clothes()
            if rng.random() < 0.5:
                english, german = f"{english} in {english_clothes}", f"{german} in {german_clothes}"
            else:
                with_, in_ = f"{german} mit {german_clothes}", f"{german} in {german_clothes}"
                english, german = f"{english} wearing {english_clothes}", with_ if rng.random() < 0.5 else in_
        be = ("are" if plural else "is") + " "
        if rng.random() < 0.1:
            be = ""  # a caption without a verb
        kind = rng.random()
        do = self.act if kind < 0.55 else self.handle if kind < 0.85 else self.act_twice
        english_clothes, german_clothes = do(plural)
        return upper(f"{english} {be}{english_clothes}") + ".", upper(f"{german} {german_clothes}") + "."

    def act(self, plural: bool) -> tuple[str, str]:
        verb = self.rng.choice(DOES[:12] if self.rng.random() < 0.45 else DOES)
        english_place, german_place = self.place()
        first, _, remainder = (verb[2] if plural else verb[1]).partition(" ")
        # "fährt im Park Fahrrad": the object or particle of the verb goes to the end
        if remainder.split(" ")[-1] in PARTICLES:
            object_, _, particle = remainder.rpartition(" ")
            tail = f"{object_} {german_place} {particle}".strip()
        elif remainder and remainder.split()[0] in LAST_OBJECTS:
            tail = f"{german_place} {remainder}"
        else:
            tail = f"{remainder} {german_place}".strip()
        return f"{verb[0]} {english_place}", f"{first} {tail}"

    def handle(self, plural: bool) -> tuple[str, str]:
        rng = self.rng
        verb = rng.choice(HANDLES[:6] if rng.random() < 0.4 else HANDLES)
        fits = [o for o in OBJECTS if o[0] in FITS[verb[0]]] if verb[0] in FITS else OBJECTS
        noun = rng.choice(fits)
        adjectives = self.maybe_adjective(COLOURS[:10] + COLOURS[-5:], 0.35)
        english_noun, german_noun = self.phrase(noun, "acc", adjectives, rng.random() < 0.15)
        german_verb = verb[2] if plural else verb[1]
        if rng.random() < 0.4:
            english_place, german_place = self.place()
            return f"{verb[0]} {english_noun} {english_place}", f"{german_verb} {german_place} {german_noun}"
        return f"{verb[0]} {english_noun}", f"{german_verb} {german_noun}"

    def act_twice(self, plural: bool) -> tuple[str, str]:
        verb, second = self.rng.sample(DOES[:18], 2)
        english_place, german_place = self.place()
        first_verb, second_verb = (verb[2], second[2]) if plural else (verb[1], second[1])
        return f"{verb[0]} {english_place} and {second[0]}", f"{first_verb} {german_place} und {second_verb}"


def dative_plural(noun: str) -> str:
    return noun if noun[-1] in "ns" else noun + "n"
